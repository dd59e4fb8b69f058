package e2e

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// sourceMissing is how lab/suites/sqla.py ends if the source of SQLAlchemy cannot be had.
const sourceMissing = 75

// TestSQLAlchemy runs SQLAlchemy's own tests of dialects. What fails of them is listed in
// lab/suites/sqlalchemy_failures.txt; another failure, or one less, fails this test.
func TestSQLAlchemy(t *testing.T) {
	needTime(t)
	python := tool(t, "python3")
	c := shared.database(t, "sqlalchemy")
	host, port, _ := net.SplitHostPort(c.nodes[0].sql)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "../suites/sqla.py", "--host", host, "--port", port).CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == sourceMissing {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(string(out))
}
