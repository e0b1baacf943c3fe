"""Fleet deployment: collect facts, check, render releases, act on hosts."""
