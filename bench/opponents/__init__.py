"""The opponents of genmix, each in a plain and efficient implementation."""
