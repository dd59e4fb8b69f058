package base

// Turn is a mutex that is held while disks write: a channel of capacity 1, because a disk takes
// virtual time in simulations, and goroutines that wait for a mutex stop it.
type Turn chan struct{}

// Lock waits until nobody holds the turn, and takes it.
func (t Turn) Lock() { t <- struct{}{} }

// Unlock gives the turn back.
func (t Turn) Unlock() { <-t }
