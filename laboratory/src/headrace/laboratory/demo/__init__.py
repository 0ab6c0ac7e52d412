"""The main job on real input: a whole year of flights through a connector, a gateway and Spark, checked to the last figure."""
