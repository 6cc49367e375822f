"""How a record of any shape becomes an example: the mapping that topics and files share.

input_mapping.py  what a user says about the fields of a record
framing.py        the interface to the schemas of a registry
parsing.py        the bytes of a record -> what they hold
record_reader.py  records of any shape -> messages of the product's own
outer_record.py   records of any shape that have an id, and into which a label is put
record_mapper.py  a parsed record -> an example, by a mapping
timestamps.py     the forms in which a field may hold a time
spelling.py       parse errors (expected, found), and the numbers that texts spell
"""
