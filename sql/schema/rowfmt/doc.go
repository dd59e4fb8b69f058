// Package rowfmt is the byte format of rows. It is a leaf that the layers below SQL may import,
// which evaluate shipped updates over rows without knowing tables (package kv/patch).
//
// A row is the version of the format, one byte, then for each stored column, in the order of the
// column ids:
//
//	uvarint(difference to the id before << 1 | null), and unless null the payload
//
// A payload does not say of what type it is, but its [Class] says how long it is: a varint for
// numbers and times (zig-zag if they are signed), eight bytes for floats, and a length with so many
// bytes for the rest. A column that is not there has the value that its descriptor says, else NULL.
package rowfmt
