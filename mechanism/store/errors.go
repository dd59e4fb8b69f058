package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

const whatToDo = "replace this node's store: stop the node, move the directory away, and rejoin it as a new node " +
	"(the other replicas have the data); check the disk first"

// corruptf makes the error for stored bytes that failed a check.
func corruptf(format string, args ...any) error {
	return base.Errorf(base.CodeCorrupt, "%s; %s", fmt.Sprintf(format, args...), whatToDo)
}

// errClosed answers a request that has outlived the transport, where Pebble would panic.
var errClosed = base.Errorf(base.CodeUnavailable, "the store is closed: the node is stopping")

// newIter opens an iterator over engine keys.
func (s *Store) newIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	return s.db.NewIter(o)
}

// wrap turns Pebble's error into one with a kind and a message for the user.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	var be *base.Error
	if errors.As(err, &be) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return s.corrupt(corruptf("store %s: file %s is damaged: %v", s.opts.Dir, info.Path, info.Details))
	}
	if pebble.IsCorruptionError(err) {
		return s.corrupt(corruptf("store %s: %v", s.opts.Dir, err))
	}
	return fmt.Errorf("store %s: %w", s.opts.Dir, err)
}

// corrupt remembers the first corruption for [Store.Err].
func (s *Store) corrupt(err error) error {
	s.corruption.CompareAndSwap(nil, &err)
	return err
}

// Err is the first corruption met since Open, in the foreground or in the
// background (compaction); nil if none. A node that sees one should stop serving.
func (s *Store) Err() error {
	if p := s.corruption.Load(); p != nil {
		return *p
	}
	return nil
}

// openError explains why a store could not be opened.
func openError(dir string, err error) error {
	msg := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(msg, p) {
				return true
			}
		}
		return false
	}
	var pe *fs.PathError
	switch {
	case pebble.IsCorruptionError(err):
		return corruptf("store %s: %v", dir, err)
	case errors.As(err, &pe) && pe.Op == "mkdir" || errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.ENOTDIR):
		return base.Errorf(base.CodeInvalid, "store %s cannot be opened: %v; choose a directory that this process may "+
			"write, on a disk with room", dir, err)
	case has("resource temporarily unavailable", "lock held by", "already held"):
		return base.Errorf(base.CodeUnavailable, "store %s is in use by another process: %v; stop it, "+
			"or choose another --store", dir, err)
	case has("written in unsupported format", "format major version", "format version"):
		return base.Errorf(base.CodeInvalid, "store %s was written by a newer or incompatible program: %v; "+
			"start it with the version that wrote it, or newer", dir, err)
	case errors.Is(err, pebble.ErrDBNotPristine), has("not pristine"):
		return corruptf("store %s holds files but no format marker: its creation did not finish, "+
			"or files were removed: %v", dir, err)
	case has("MANIFEST", "manifest", "no such file", "file does not exist", "unknown to the objstorage provider",
		"checksum", "invalid", "unexpected EOF", "L0", "size mismatch"):
		return corruptf("store %s: %v", dir, err)
	}
	return fmt.Errorf("open store %s: %w", dir, err)
}

// logger feeds Pebble's log lines to slog. Pebble calls Fatalf when it cannot go on (a write or
// sync of the log failed): the process must not either, since what it acknowledged might be lost.
type logger struct{ l *slog.Logger }

func (l logger) Infof(format string, args ...any)  { l.l.Debug(fmt.Sprintf(format, args...)) }
func (l logger) Errorf(format string, args ...any) { l.l.Error(fmt.Sprintf(format, args...)) }
func (l logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.l.Error(msg)
	panic("store: " + msg)
}

// listener watches Pebble for what the store must know.
func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { _ = s.background(err) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			_ = s.corrupt(corruptf("store %s: file %s is damaged: %v", s.opts.Dir, i.Path, i.Details))
			s.opts.Logger.Error("store: damaged file", "path", i.Path, "details", i.Details)
		},
		DiskSlow: func(i vfs.DiskSlowInfo) {
			s.opts.Logger.Warn("store: slow disk", "path", i.Path, "op", i.OpType.String(), "took", i.Duration)
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			s.stalls.Add(1)
			s.opts.Logger.Warn("store: writes stalled", "reason", i.Reason)
		},
		// Idle iterators must not keep obsolete files and memtables alive.
		FlushEnd:      func(pebble.FlushInfo) { s.idle.expire(); s.guard.note(false) },
		CompactionEnd: func(pebble.CompactionInfo) { s.idle.expire(); s.guard.note(false) },
		WALCreated:    s.guard.walCreated,
	}
}

func (s *Store) background(err error) error {
	s.opts.Logger.Error("store: background error", "err", err)
	return s.wrap(err)
}
