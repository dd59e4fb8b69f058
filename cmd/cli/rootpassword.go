package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/sql/server"
)

// rootPasswordVar is the environment variable that has root's password for `godwit init`.
const rootPasswordVar = "GODWIT_ROOT_PASSWORD"

// rootPassword is what root gets in a new cluster.
type rootPassword struct {
	file string
	none bool

	password string
	made     bool // nobody but this process knows the password
}

func (p *rootPassword) flags(f *pflag.FlagSet) {
	p.fileFlag(f)
	f.BoolVar(&p.none, "no-root-password", false, "root has no password: whoever reaches a SQL port is root")
}

func (p *rootPassword) fileFlag(f *pflag.FlagSet) {
	f.StringVar(&p.file, "root-password-file", "",
		"file with root's password for MySQL clients in its first line, - is standard input (default $"+rootPasswordVar+
			", or a password is made and printed)")
}

// choose reads or makes the password. Clusters without TLS have none unless one is given.
func (p *rootPassword) choose(stdin io.Reader, insecure bool) error {
	given, set := os.LookupEnv(rootPasswordVar)
	switch {
	case p.none && p.file != "":
		return usagef("--no-root-password and --root-password-file contradict each other")
	case p.none:
		return nil
	case p.file != "":
		return p.read(stdin)
	case set:
		return p.take(given, "$"+rootPasswordVar)
	case insecure:
		p.none = true
		return nil
	}
	p.password, p.made = rand.Text(), true
	return nil
}

// longestPasswordFile bounds what is read, in bytes.
const longestPasswordFile = 4096

func (p *rootPassword) read(stdin io.Reader) error {
	if p.file != "-" {
		f, err := os.Open(p.file)
		if err != nil {
			return fmt.Errorf("--root-password-file: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	b, err := io.ReadAll(io.LimitReader(stdin, longestPasswordFile))
	if err != nil {
		return fmt.Errorf("--root-password-file: %w", err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return p.take(string(bytes.TrimSuffix(line, []byte("\r"))), "--root-password-file")
}

func (p *rootPassword) take(password, from string) error {
	if password == "" {
		return usagef("%s: the password is empty; --no-root-password says that root has none", from)
	}
	p.password = password
	return nil
}

// hash is what the nodes are told: not the password.
func (p *rootPassword) hash() (string, error) {
	if p.none {
		return "", nil
	}
	return server.PasswordHash(p.password)
}

// lines say how root logs in from now on.
func (p *rootPassword) lines() []string {
	switch {
	case p.none:
		return []string{"root has NO PASSWORD: whoever reaches a SQL port is root. Set one by " +
			"ALTER USER root IDENTIFIED BY '...'"}
	case p.made:
		return []string{"root's password for MySQL clients: " + p.password,
			"It is shown this once. Change it by ALTER USER root IDENTIFIED BY '...'"}
	}
	return []string{"root has the password that was given"}
}

// afterError adds the password that was made to an error that leaves open whether there is a
// cluster with it.
func (p *rootPassword) afterError(err error) error {
	if !p.made || errors.Is(err, errEarly) || errors.Is(err, errRefused) || errors.Is(err, errInterrupted) {
		return err
	}
	return fmt.Errorf("%w\nIf the cluster was made in spite of this, root's password is %s", err, p.password)
}
