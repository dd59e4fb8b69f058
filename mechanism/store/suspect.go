package store

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// A log that ends in a record that is not whole was cut off by a crash in the middle of a write,
// which is normal; or its last records were damaged, and with them what this node has acknowledged.
// Nothing in the file tells. So every group that the store holds is suspect then (RECOVER-1), until
// its group says otherwise: see package group.

// suspectFile says that the groups have to be marked before anything else; it outlives a crash in
// between, when Pebble has cut the log off already.
const suspectFile = "SUSPECT"

// stateSuspect is why a group's log may lack what this node has acknowledged.
const stateSuspect = raftNames + "suspect"

// noteTail puts the suspicion on the disk before Pebble removes what it is about.
func noteTail(fs vfs.FS, dir, why string) error {
	f, err := fs.Create(fs.PathJoin(dir, suspectFile), "godwit-guard")
	if err == nil {
		if _, err = f.Write([]byte(why)); err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return fmt.Errorf("store %s: its log ends in a record that is not whole, which cannot be noted: %w", dir, err)
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// markSuspects marks all groups if the log had a bad end.
func (s *Store) markSuspects() error {
	fs, path := s.fs(), s.fs().PathJoin(s.opts.Dir, suspectFile)
	why, err := readAll(fs, path)
	if err != nil {
		return nil // there is none
	}
	s.lostTail = strings.TrimSpace(string(why))
	gs, err := s.Groups()
	if err != nil {
		return err
	}
	b := s.NewBatch()
	defer b.Close()
	for _, g := range gs {
		b.SetSuspicion(g, s.lostTail)
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	if err := fs.Remove(path); err != nil {
		return fmt.Errorf("store %s: %w", s.opts.Dir, err)
	}
	s.opts.Logger.Warn("store: the log may have lost its end; what it lacks comes from the other replicas", "store",
		s.opts.Dir, "why", s.lostTail)
	return syncDir(fs, s.opts.Dir)
}

// LostTail is why the log may have lost its end when the store was opened; empty if it has not.
func (s *Store) LostTail() string { return s.lostTail }

// Suspicion is why the log of a group may lack what this node has acknowledged; empty if it has
// all.
func (s *Store) Suspicion(g base.GroupID) (string, error) {
	v, _, err := s.get(stateKey(g, stateSuspect))
	return string(v), err
}

// SetSuspicion sets that; empty takes the suspicion away.
func (b *Batch) SetSuspicion(g base.GroupID, why string) {
	if why == "" {
		b.del(stateKey(g, stateSuspect))
		return
	}
	b.set(stateKey(g, stateSuspect), []byte(why))
}
