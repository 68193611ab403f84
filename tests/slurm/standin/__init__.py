"""What stands in for a package that is not installed lies here, on the path of the process under test only."""
