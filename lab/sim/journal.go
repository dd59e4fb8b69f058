package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// journal keeps what the nodes log and what the simulation does, in virtual time.
type journal struct {
	start time.Time
	mu    sync.Mutex
	lines []string
	lost  int
}

// maxJournal bounds the lines kept; the oldest half goes first.
const maxJournal = 200_000

// newest is the journal of the run under way, to print when a run hangs.
var newest atomic.Pointer[journal]

func newJournal(start time.Time) *journal {
	j := &journal{start: start}
	newest.Store(j)
	return j
}

// tail is the last lines.
func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-n):], "\n")
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == maxJournal {
		j.lost += maxJournal / 2
		j.lines = append(j.lines[:0], j.lines[maxJournal/2:]...)
	}
	j.lines = append(j.lines, line)
}

func (j *journal) printf(format string, args ...any) {
	j.add(fmt.Sprintf("%12.6f # ", time.Since(j.start).Seconds()) + fmt.Sprintf(format, args...))
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n") + "\n"
}

// LogLevel is the level at which the nodes of a simulation log into the journal.
var LogLevel = slog.LevelInfo

func (j *journal) slog(slog.Level) *slog.Logger { return slog.New(&handler{j: j}) }

// handler prints records with virtual time.
type handler struct {
	j     *journal
	attrs string
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= LogLevel }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%12.6f %s%s %s", r.Time.Sub(h.j.start).Seconds(), r.Level.String()[:1], h.attrs, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	h.j.add(b.String())
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &c
}

func (h *handler) WithGroup(string) slog.Handler { return h }

// mortal is the logger of a process: silent once it is dead.
type mortal struct {
	slog.Handler
	l *life
}

func (m mortal) Enabled(ctx context.Context, l slog.Level) bool {
	return !m.l.dead.Load() && m.Handler.Enabled(ctx, l)
}

func (m mortal) WithAttrs(a []slog.Attr) slog.Handler { return mortal{m.Handler.WithAttrs(a), m.l} }
func (m mortal) WithGroup(n string) slog.Handler      { return mortal{m.Handler.WithGroup(n), m.l} }
