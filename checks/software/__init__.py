"""Accounts, names, credentials, container runtimes and packages that jobs rely on."""
