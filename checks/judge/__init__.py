"""What findings mean: pure functions over values, used alike by agent, central service and command line."""
