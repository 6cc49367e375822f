"""How a record of any shape becomes an example: the mapping that topics and files share.

input_mapping.py  what a user says of the fields of a record
framing.py        who tells what records hold that are framed by a schema
parsing.py        the bytes of a record -> what they hold
record_reader.py  records of any shape -> messages of the product's own
outer_record.py   records of any shape that have an id, and that a label is put into
record_mapper.py  a parsed record -> an example, by a mapping
timestamps.py     the forms in which a field may hold a time
spelling.py       what was expected and what was found, and the numbers that texts spell
"""
