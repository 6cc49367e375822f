"""What is compiled: the table of monomials, and how an example is expanded, scored and learned."""
