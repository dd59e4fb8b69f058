package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// lesson is a block of shell of a document, and lines that it must print.
type lesson struct {
	script string
	prints []string
}

var block = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// stepsOf are the steps of a document.
func stepsOf(text string) (out []lesson) {
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" {
			out = append(out, lesson{script: m[2]})
			continue
		}
		s := &out[len(out)-1]
		s.prints = append(s.prints, strings.Split(strings.TrimSpace(m[2]), "\n")...)
	}
	return out
}

// TestTutorial executes docs/tutorial.md as it stands, in one shell: each block of text is what the
// commands above it print.
func TestTutorial(t *testing.T) {
	needTime(t)
	for _, name := range []string{"bash", "mysql"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: the tutorial is not executed", name)
		}
	}
	for _, port := range []string{"7600", "7601", "7602", "7690"} {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Skipf("port %s of the tutorial is taken: %v", port, err)
		}
		l.Close()
	}
	text, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(text))
	if len(steps) < 6 {
		t.Fatalf("%d steps", len(steps))
	}
	dir := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asGodwit, self)
	if err := os.WriteFile(filepath.Join(dir, "godwit"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "set -euo pipefail\ntrap 'kill -9 ${DEMO:-} 2>/dev/null || true' EXIT\n"
	for i, s := range steps {
		script += fmt.Sprintf("echo '== step %d'\n%s", i, s.script)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	c.WaitDelay = time.Second
	began := time.Now()
	out, err := c.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "demo.log")) // for the message
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	t.Logf("the tutorial took %s", time.Since(began).Round(time.Second))
	parts := regexp.MustCompile(`(?m)^== step \d+\n`).Split(string(out), -1)[1:]
	for i, s := range steps {
		printed := map[string]bool{}
		for _, line := range strings.Split(parts[i], "\n") {
			printed[strings.Join(strings.Fields(line), " ")] = true
		}
		for _, want := range s.prints {
			if !printed[want] {
				t.Errorf("step %d does not print %q, but\n%s", i, want, parts[i])
			}
		}
	}
}
