"""What is done about failed cards, decided without I/O: values in, values out."""
