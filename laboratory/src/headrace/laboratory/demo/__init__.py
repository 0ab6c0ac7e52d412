"""A complete job on real input: a year of flights through a connector, a gateway and Spark, with every figure checked."""
