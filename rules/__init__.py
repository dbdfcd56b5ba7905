"""How each condition is recognised and what is advised: rules, their cases, policies, and the language of both."""
