package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cmd/doctor"
	"github.com/godwitdb/godwit/node"
)

// TestLogFile: a log is JSON, and files beyond a size are renamed; of these only some are kept.
func TestLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := node.Config{Region: "eu", LogFormat: "json", LogFile: filepath.Join(dir, "log", "godwit.log"), LogFileMB: 1, LogFiles: 1}
	cfg.Fill()
	log, file, err := nodeLogger(io.Discard, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not written")
	for i := range 3000 {
		log.Info("line", "number", i, "text", strings.Repeat("x", 1000), "err", os.ErrClosed)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(cfg.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var line struct {
			Msg, Level, Err string
			Number          int
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.Msg != "line" || line.Level != "INFO" || line.Err != "file already closed" {
			t.Fatalf("%s: %v", s.Bytes(), err)
		}
	}
	if len(b) > 1<<20 || len(b) == 0 {
		t.Errorf("the file has %d bytes", len(b))
	}
	cfg.LogFile = filepath.Join(dir, "log", "godwit.log", "below")
	if _, _, err := nodeLogger(io.Discard, &cfg); err == nil {
		t.Error("a file that cannot be made passes")
	}
	cfg.LogFormat = "xml"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "log-format") {
		t.Errorf("xml: %v", err)
	}
}

// TestMan: each command has a page, which man formats without a warning, if it is installed.
func TestMan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	if status := run(context.Background(), []string{"man", dir}, nil, io.Discard, os.Stderr); status != 0 {
		t.Fatalf("status %d", status)
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		b, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, want := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("the page of %s lacks %s", c.CommandPath(), want)
			}
		}
		if _, err := exec.LookPath("groff"); err == nil {
			cmd := exec.Command("groff", "-man", "-Tutf8", "-ww", "-z")
			cmd.Stdin = bytes.NewReader(b)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("groff says of the page of %s: %v %s", c.CommandPath(), err, out)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(newRoot())
}

// TestCompletion: the scripts for shells are made from the commands, and those shells that are
// installed can read them.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		if status := run(context.Background(), []string{"completion", shell}, nil, &out, os.Stderr); status != 0 || !strings.Contains(out.String(), "godwit") {
			t.Errorf("%s: status %d, %d bytes", shell, status, out.Len())
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "godwit."+shell)
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s -n: %v %s", shell, err, said)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"doctor", "--json", "--store", dir, "--listen", "127.0.0.1:0", "--sql-listen", "127.0.0.1:0"},
		nil, &out, &errs)
	var all []doctor.Finding
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatalf("%v: %s %s", err, out.String(), errs.String())
	}
	bad := doctor.Worst(all) == doctor.Bad
	if len(all) != 9 || bad != (status == exitFailed) || !bad && status != exitOK {
		t.Errorf("status %d, %+v", status, all)
	}
	out.Reset()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := run(context.Background(), []string{"doctor", "--running", "--store", file}, nil, &out, &errs); status != exitFailed ||
		!strings.Contains(out.String(), "cannot be written") || !strings.Contains(out.String(), "-> ") || strings.Contains(out.String(), "port") {
		t.Errorf("status %d of a folder that cannot be: %s", status, out.String())
	}
}
