package group

import (
	"context"
	"fmt"
	"log/slog"
)

// raftLogger gives raft's own words to slog. What raft calls information is
// detail here: the host logs leader changes itself.
type raftLogger struct{ l *slog.Logger }

func (r raftLogger) log(level slog.Level, format string, v ...any) {
	if r.l.Enabled(context.Background(), level) {
		r.l.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}

func (r raftLogger) print(level slog.Level, v ...any) {
	if r.l.Enabled(context.Background(), level) {
		r.l.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (r raftLogger) Debug(v ...any)                 { r.print(slog.LevelDebug, v...) }
func (r raftLogger) Debugf(f string, v ...any)      { r.log(slog.LevelDebug, f, v...) }
func (r raftLogger) Info(v ...any)                  { r.print(slog.LevelDebug, v...) }
func (r raftLogger) Infof(f string, v ...any)       { r.log(slog.LevelDebug, f, v...) }
func (r raftLogger) Warning(v ...any)               { r.print(slog.LevelDebug, v...) }
func (r raftLogger) Warningf(f string, v ...any)    { r.log(slog.LevelDebug, f, v...) }
func (r raftLogger) Error(v ...any)                 { r.print(slog.LevelError, v...) }
func (r raftLogger) Errorf(f string, v ...any)      { r.log(slog.LevelError, f, v...) }
func (r raftLogger) Fatal(v ...any)                 { r.Panic(v...) }
func (r raftLogger) Fatalf(f string, v ...any)      { r.Panicf(f, v...) }
func (r raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (r raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
