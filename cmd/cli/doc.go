// Package cli is the command line of godwit: flags, files, signals, tables. It
// decides nothing about data; each command calls one package that does.
//
// # Exit status
//
//	0    done; also after an interrupt that ended a command cleanly
//	1    the command failed; the reason is on standard error
//	2    it could not be understood: unknown command or flag, bad value, bad file
//	130  interrupted before there was anything to report, or twice
//
// Standard output carries what was asked for and nothing else once --json is
// given; progress and logs are on standard error.
package cli
