"""How a record of any shape becomes an example: the mapping that topics and files share.

input_mapping.py  what a user says of the fields of a record
record_mapper.py  a parsed record -> an example, by a mapping
timestamps.py     the forms in which a field may hold a time
spelling.py       what was expected and what was found, and the numbers that texts spell
"""
