"""Tables on disk that may be larger than memory: Parquet, Arrow and CSV files, read in groups of rows by PyArrow.

files.py    a file or a folder as a list of groups of rows
batches.py  batches from any source, written to a temporary file
columns.py  columns of a group as numbers; bad rows are errors that name the file and the row
scan.py     one pass over all rows: moments of the columns, labels, and a random sample of rows
windows.py  which rows are in memory at which step of a training
rows.py     columns in place of an array of a model
feed.py     reads these rows ahead of the training and puts them on the devices
"""
