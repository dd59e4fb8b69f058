// Package e2e holds tests of the whole: real processes on real sockets and disks, with clients that
// know nothing of Godwit.
//
// A test process runs the command line by starting its own binary again, so no other build is
// needed and what runs is the code under test. Tests that need a client that is not installed skip
// and name it; .ci/run installs them. `go test -short` leaves out tests that take more than a few
// seconds.
package e2e
