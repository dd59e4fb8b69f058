package session

import (
	"bytes"
	"io"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// mostOfFile is how long a file of a client may be that is kept for another attempt.
const mostOfFile = 4 << 20

// fileKept is what a session keeps a file as.
const fileKept = "the file of LOAD DATA"

// Infile stands for the client of a LOAD DATA that this node executes for itself.
type Infile struct {
	// Open opens the file; the name is that of the statement.
	Open func(name string) (io.ReadCloser, error)
	// Exact: what is wrong with a row ends the statement. Without it rows that meet others, or
	// violate a constraint, are left out; values are exact all the same.
	Exact bool
}

// MayLoad reports whether a statement of the session may read a file; client: it is the client's.
func (s *Session) MayLoad(client bool) bool {
	_, on, _ := sql.SystemVariables.GetGlobal("local_infile")
	return client && (on != int8(0) || s.Infile != nil)
}

// Exact reports whether LOAD DATA ends with the first row in which something is wrong.
func (s *Session) Exact() bool { return s.Infile != nil && s.Infile.Exact }

// LoadInfile is a file of the client, which ask asks for. A statement may ask once: most clients
// take a second question for the answer. So a short file is kept until the client's statement has
// ended, in case that it loses a conflict.
func (s *Session) LoadInfile(name string, ask func(string) (io.ReadCloser, error)) (io.ReadCloser, error) {
	if s.Infile != nil {
		return s.Infile.Open(name)
	}
	if f := s.file; f != nil && f.whole.Load() && f.name == name {
		return io.NopCloser(bytes.NewReader(f.text)), nil
	}
	s.Stmt.Asked = true
	file, err := ask(name)
	if err != nil {
		return nil, err
	}
	f := &clientFile{ReadCloser: file, name: name, sent: s.State.ClientWaits, ended: s.ClientEnded}
	if s.keep(fileKept, mostOfFile, false) != nil {
		f.long = true
		return f, nil
	}
	s.file = f
	return f, nil
}

// Asked reports whether the client was asked for a file that is not kept as a whole, so that the
// statement cannot be tried again.
func (s *Session) Asked() bool { return s.Stmt.Asked && (s.file == nil || !s.file.whole.Load()) }

// forgetFile ends the keeping of a file.
func (s *Session) forgetFile() {
	s.kept.shrink(fileKept, s.kept.of[fileKept])
	s.file = nil
}

// errCut is the error of a file whose end the client has not sent. Nobody but logs is told.
var errCut = mysql.NewSQLError(1159, "08S01", "The connection to the client ended before its file")

// clientFile keeps a file while it is read, by another goroutine than the statement's.
type clientFile struct {
	io.ReadCloser
	name  string
	sent  func() // called when the client has sent all of it
	ended func() bool
	text  []byte
	long  bool
	whole atomic.Bool // the text is that of all of a short file, and does not change any more
}

// Read implements io.Reader.
func (f *clientFile) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if err == io.EOF {
		// The protocol library tells the end of the connection as that of the file.
		if f.ended != nil && f.ended() {
			return n, errCut
		}
		f.sent()
	}
	if f.long = f.long || len(f.text)+n > mostOfFile; f.long {
		f.text = nil
		return n, err
	}
	if f.text = append(f.text, b[:n]...); err == io.EOF {
		f.whole.Store(true)
	}
	return n, err
}
