"""The world: stores, file formats, catalogs and AWS. Each module implements ports on top of one library."""
