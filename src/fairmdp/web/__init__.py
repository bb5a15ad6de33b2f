"""The page of ``fairmdp explore`` and the file of ``fairmdp report``: one set of figures, drawn from JSON."""
