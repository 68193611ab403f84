"""The central service: stores what agents report, authorizes what they want, answers people."""
