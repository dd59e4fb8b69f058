// Package rowfile reads and writes rows in files: CSV, Parquet, and the INSERT statements of a SQL
// dump. It knows no tables: a value is text, as MySQL writes it, or NULL.
//
// A reader tells where it is, and one that begins there reads the rest. So what was read of a file
// can be kept as positions.
//
// Files come from anywhere: everything in them may be wrong. A reader keeps a bounded part of a
// file, and tells what it cannot read as a [BadError], with the line.
package rowfile

import (
	"context"
	"fmt"
	"io"
)

// Kind is what a file consists of.
type Kind string

// The kinds of files.
const (
	CSV     Kind = "csv"
	Parquet Kind = "parquet"
	SQL     Kind = "sql"
)

// Position is where a reader goes on. The zero value is the beginning of a file.
type Position struct {
	// Row counts the rows before.
	Row int64 `json:"row"`
	// Offset is in bytes of the file as it was before it was compressed, and Line counts line feeds
	// before it, from 1. Those of Parquet are 0.
	Offset int64 `json:"offset,omitempty"`
	Line   int64 `json:"line,omitempty"`
	// Columns are those of the INSERT in which the position is; Inside: it is in one.
	Columns []string `json:"columns,omitempty"`
	Inside  bool     `json:"inside,omitempty"`
	// Header are the names that a CSV file begins with.
	Header []string `json:"header,omitempty"`
}

// Field is a value.
type Field struct {
	Text []byte
	Null bool
	// Bytes: a SQL dump has it as a string or as bits, and not as a number. A BIT holds its bytes.
	Bytes bool
}

// Record is a row. It is valid until the next one is read.
type Record struct {
	Fields []Field
	// Columns are the names of the fields; nil: the file has none. A reader yields the same slice
	// as long as they stay.
	Columns []string
	// Line is where the row begins, counted from 1; in Parquet it is the number of the row.
	Line int64
}

// Reader reads the rows of a file.
type Reader interface {
	// Next reads a row. At the end of the file the error is io.EOF.
	Next(*Record) error
	// Position is behind the last row.
	Position() Position
	Close() error
}

// Source is a file.
type Source interface {
	io.ReaderAt
	From(ctx context.Context, offset int64) (io.ReadCloser, error)
	Size() int64
}

// Format says how files are read, or written.
type Format struct {
	Kind Kind `json:"kind"`
	// Compression is gzip, zstd or empty, of the file as a whole.
	Compression string `json:"compression,omitempty"`

	// FieldEnd, LineEnd, Enclosed, Escape and Null are of CSV. Enclosed and Escape have one byte or
	// none. An empty LineEnd is that of the file's first line: \n or \r\n. A field that is not
	// enclosed is NULL if it is Null; with an Escape, \N always is.
	FieldEnd string `json:"field_end,omitempty"`
	LineEnd  string `json:"line_end,omitempty"`
	Enclosed string `json:"enclosed,omitempty"`
	Escape   string `json:"escape,omitempty"`
	Null     string `json:"null,omitempty"`
	// Header: the first line has the names of the columns. Skip lines are left out before.
	Header bool  `json:"header,omitempty"`
	Skip   int64 `json:"skip,omitempty"`
	// Single: rows have one field, so that an empty line is one.
	Single bool `json:"single,omitempty"`

	// Table is whose INSERTs are read of a SQL dump.
	Table string `json:"table,omitempty"`
}

// BadError is what is wrong in a file.
type BadError struct {
	// Line is counted from 1, and so is Column, in bytes; 0: it is not known.
	Line, Column int64
	Why          string
}

// Error implements error.
func (e *BadError) Error() string {
	switch {
	case e.Line == 0:
		return e.Why
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Why)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Why)
}

// Open begins to read a file at a position. ctx ends the reading.
func Open(ctx context.Context, in Source, f *Format, at Position) (Reader, error) {
	switch f.Kind {
	case Parquet:
		return openParquet(in, at)
	case SQL:
		return openDump(ctx, in, f, at)
	}
	return openCSV(ctx, in, f, at)
}
