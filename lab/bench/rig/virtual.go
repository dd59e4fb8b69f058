package rig

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Virtual runs f in virtual time: a wait costs nothing, and a busy machine changes no result.
// Package synctest wants a testing.T, and an empty one will do. f must create and close all that it
// uses, and must wait for nothing outside.
func Virtual(f func() error) (err error) {
	testing.Init() // flags that a T looks at
	runtime.GC()   // Pebble's pools must not carry channels from one bubble to the next
	runtime.GC()
	synctest.Test(new(testing.T), func(*testing.T) { err = f() })
	return err
}

// IdleSM is a state machine that ignores what it is given, for figures that measure replication
// only.
type IdleSM struct{}

// Apply implements [group.StateMachine].
func (IdleSM) Apply(*store.Batch, []group.Entry) ([]any, error) { return nil, nil }

// Applied implements [group.StateMachine].
func (IdleSM) Applied(uint64) {}

// Leading implements [group.StateMachine].
func (IdleSM) Leading(uint64, uint64) {}

// Revoking implements [group.StateMachine]: raft moves the lead at once.
func (IdleSM) Revoking(_ uint64, _ base.NodeID, done func(bool, error)) { done(false, nil) }

// Stopped implements [group.StateMachine].
func (IdleSM) Stopped(uint64) {}

// SnapshotInstalled implements [group.StateMachine].
func (IdleSM) SnapshotInstalled(uint64) {}
