// Package audit writes what was done to a node, and by whom, to files of JSON lines. It never fails
// or holds up what it writes down: what does not fit into its queue, or on the disk, is counted as
// lost, and the next line that can be written says how many were.
package audit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind says what an event is.
type Kind string

// Kinds of events.
const (
	Login       Kind = "login"
	LoginFailed Kind = "login_failed"
	Logout      Kind = "logout"
	Account     Kind = "account" // accounts, roles, grants, passwords
	DDL         Kind = "ddl"
	Setting     Kind = "setting" // SET GLOBAL, SET PERSIST, SET CLUSTER SETTING
	Admin       Kind = "admin"   // over HTTP, and SQL statements like KILL and PROMOTE
	Table       Kind = "table"   // a statement that names or reaches an audited table
	Node        Kind = "node"    // its start and end
	lost        Kind = "lost"
)

// Event is one line. Time is set by [Log.Write].
type Event struct {
	Time       time.Time `json:"time"`
	Kind       Kind      `json:"event"`
	User       string    `json:"user,omitempty"`
	Address    string    `json:"address,omitempty"` // of the client
	Connection uint32    `json:"connection,omitempty"`
	Database   string    `json:"database,omitempty"`
	Statement  string    `json:"statement,omitempty"`
	Tables     []string  `json:"tables,omitempty"` // the audited ones that it names or reaches
	Action     string    `json:"action,omitempty"` // what was asked for, if it is no statement
	Detail     string    `json:"detail,omitempty"`
	Error      string    `json:"error,omitempty"` // why it was refused or failed; empty: it was done
	Lost       uint64    `json:"lost,omitempty"`  // events that were not written before this one
}

// Params can be changed while the log is written.
type Params struct {
	Off      bool
	FileSize int64 // bytes after which a new file begins; 0 is 64 MiB
	Files    int   // how many are kept, the one that is written included; 0 is 16
	// Tables are the audited ones: database.table, where either may be *.
	Tables []string
}

const (
	current = "audit.log"
	// queue bounds the events that wait for the disk.
	queue = 4096
	// maxText bounds the text of a statement.
	maxText = 8 << 10
	// failedPerSecond bounds the lines of logins that failed: whoever guesses must not push the
	// other lines out of the files.
	failedPerSecond = 20
	// sayEvery is the pause between messages that the log cannot be written.
	sayEvery = time.Minute
)

// Log is an audit log; nil is one that keeps nothing. Safe for concurrent use.
type Log struct {
	dir    string
	log    *slog.Logger
	now    func() time.Time
	params atomic.Pointer[Params]
	events chan Event
	done   chan struct{}
	lost   atomic.Uint64 // since the newest line
	all    atomic.Uint64 // that were ever lost

	mu     sync.Mutex // of closed and the bound of failed logins
	closed bool
	second int64
	failed int

	file *os.File // of the writer, as is what follows
	size int64
	said time.Time
}

// Open begins to write to a folder, which is made if it is not there.
func Open(dir string, log *slog.Logger) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the audit log: %w", err)
	}
	l := &Log{dir: dir, log: log, now: time.Now, events: make(chan Event, queue), done: make(chan struct{})}
	l.params.Store(&Params{})
	go l.run()
	return l, nil
}

// Set changes the parameters.
func (l *Log) Set(p Params) {
	if l != nil {
		l.params.Store(&p)
	}
}

// Params are those in force.
func (l *Log) Params() Params {
	if l == nil {
		return Params{Off: true}
	}
	return *l.params.Load()
}

// Lost is how many events were not written.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.all.Load()
}

// Waiting is how many events wait to be written, most how many may.
func (l *Log) Waiting() (n, most int) {
	if l == nil {
		return 0, 0
	}
	return len(l.events), cap(l.events)
}

// Write notes an event. It does not wait.
func (l *Log) Write(e Event) {
	if l == nil || l.params.Load().Off {
		return
	}
	e.Time = l.now().UTC()
	if len(e.Statement) > maxText {
		e.Statement = strings.ToValidUTF8(e.Statement[:maxText], "") + "..."
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || e.Kind == LoginFailed && l.tooMany(e.Time) {
		l.miss(1)
		return
	}
	select {
	case l.events <- e:
	default:
		l.miss(1)
	}
}

// tooMany reports whether a login that failed is one too many in its second.
func (l *Log) tooMany(t time.Time) bool {
	if s := t.Unix(); s != l.second {
		l.second, l.failed = s, 0
	}
	l.failed++
	return l.failed > failedPerSecond
}

func (l *Log) miss(n uint64) {
	l.lost.Add(n)
	l.all.Add(n)
}

// Close writes what waits and ends.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	was := l.closed
	l.closed = true
	if !was {
		close(l.events)
	}
	l.mu.Unlock()
	<-l.done
	return nil
}

func (l *Log) run() {
	defer close(l.done)
	for e := range l.events {
		l.put(e)
	}
	if n := l.lost.Load(); n > 0 {
		l.put(Event{Time: l.now().UTC(), Kind: lost})
	}
	if l.file != nil {
		_ = l.file.Close()
	}
}

// put writes one line, with the number of those lost before it.
func (l *Log) put(e Event) {
	e.Lost = l.lost.Load()
	if err := l.append(e); err != nil {
		l.miss(1)
		if l.said.IsZero() || l.now().Sub(l.said) >= sayEvery {
			l.said = l.now()
			l.log.Error("the audit log cannot be written; the node goes on, and counts what is missing: make room on its disk",
				"dir", l.dir, "lost", l.all.Load(), "err", err)
		}
		return
	}
	l.lost.Add(-e.Lost)
	if !l.said.IsZero() {
		l.log.Info("the audit log is written again", "dir", l.dir, "lost", l.all.Load())
		l.said = time.Time{}
	}
}

func (l *Log) append(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	p := l.params.Load()
	limit := p.FileSize
	if limit <= 0 {
		limit = 64 << 20
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > limit {
		if err := l.rotate(p); err != nil {
			return err
		}
	}
	n, err := l.file.Write(line)
	if err != nil {
		// What is there of the line would spoil the next one.
		if terr := l.file.Truncate(l.size); terr != nil {
			l.size += int64(n)
		}
		return err
	}
	l.size += int64(n)
	return nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(filepath.Join(l.dir, current), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := wholeLines(f)
	if err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.size = f, size
	return nil
}

// wholeLines cuts off a line of which a crash has left the beginning, and returns the file's size.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	tail := make([]byte, min(size, 64<<10))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && size > 0 {
		return 0, err
	}
	for i := len(tail) - 1; i >= 0 && tail[i] != '\n'; i-- {
		size--
	}
	return size, f.Truncate(size)
}

// rotate begins a new file, and removes the oldest ones.
func (l *Log) rotate(p *Params) error {
	name := "audit-" + l.now().UTC().Format("20060102T150405.000000000Z") + ".log"
	if err := os.Rename(filepath.Join(l.dir, current), filepath.Join(l.dir, name)); err != nil {
		return err
	}
	_ = l.file.Close()
	l.file = nil
	keep := p.Files
	if keep <= 0 {
		keep = 16
	}
	old, err := filepath.Glob(filepath.Join(l.dir, "audit-*.log"))
	if err != nil {
		return err
	}
	slices.Sort(old)
	for _, f := range old[:max(0, len(old)-(keep-1))] {
		if err := os.Remove(f); err != nil {
			l.log.Warn("an old file of the audit log cannot be removed", "file", f, "err", err)
		}
	}
	return l.open()
}

// Audited are the tables of a list, as database.table, that the parameters name.
func (p *Params) Audited(tables []string) (out []string) {
	for _, t := range tables {
		if slices.ContainsFunc(p.Tables, func(pattern string) bool { return matches(pattern, t) }) {
			out = append(out, t)
		}
	}
	return out
}

func matches(pattern, table string) bool {
	pd, pt, _ := strings.Cut(strings.ToLower(pattern), ".")
	td, tt, _ := strings.Cut(strings.ToLower(table), ".")
	return (pd == "*" || pd == td) && (pt == "*" || pt == tt)
}

// ParseTables reads a list of tables: database.table, separated by commas, where either may be *.
func ParseTables(list string) (out []string, err error) {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "" {
			continue
		}
		if db, name, ok := strings.Cut(t, "."); !ok || db == "" || name == "" || strings.Contains(name, ".") {
			return nil, fmt.Errorf("%q is not DATABASE.TABLE, where either may be *", t)
		}
		out = append(out, t)
	}
	return out, nil
}
