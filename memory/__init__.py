"""The product: what agents, people and operators touch."""
