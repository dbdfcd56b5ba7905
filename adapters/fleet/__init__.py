"""A fleet in several processes: shards on Ray, and one front door to all of them. Only some modules import Ray."""
