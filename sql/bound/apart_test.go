package bound

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/aside"
)

// TestApart: comparisons and conversions of long texts answer what the engine's do, and run aside.
func TestApart(t *testing.T) {
	long := expression.NewGetField(0, types.LongText, "t", true)
	longer := expression.NewGetField(1, types.LongText, "u", true)
	short := expression.NewGetField(0, types.TinyText, "t", true)
	text := strings.Repeat("abé1", LongCall/4)
	row := sql.Row{text, text + "x"}
	for _, x := range []struct {
		e    sql.Expression
		want any
		long bool
	}{
		{expression.NewEquals(long, longer), false, true},
		{expression.NewEquals(long, long), true, true},
		{expression.NewLessThan(long, longer), true, true},
		{expression.NewGreaterThanOrEqual(long, longer), false, true},
		{expression.NewBetween(longer, long, longer), true, true},
		{expression.NewConvert(long, expression.ConvertToBinary), []byte(text), true},
		{expression.NewConvert(long, expression.ConvertToSigned), int64(0), true},
		{expression.NewEquals(short, short), true, false},
	} {
		e, _, err := comparing(sql.NewEmptyContext(), x.e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(sql.NewContext(t.Context()), row)
		if b, ok := got.([]byte); ok && err == nil {
			if string(b) != string(x.want.([]byte)) {
				t.Errorf("%s: another text", x.e)
			}
		} else if got != x.want || err != nil {
			t.Errorf("%s is %v, %v; want %v", x.e, got, err, x.want)
		}
		// Again, while others take all lanes.
		begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		others, stop := context.WithCancel(t.Context())
		_, most := aside.Calls.Taken()
		for range most {
			go func() {
				_ = aside.Calls.Run(others, func() (func(), error) { return func() {}, nil }, func() { begun <- struct{}{}; <-goOn })
				ended <- struct{}{}
			}()
			<-begun
		}
		ctx, kill := context.WithCancelCause(t.Context())
		kill(errors.New("killed"))
		if _, err := e.Eval(sql.NewContext(ctx), row); (err != nil) != x.long {
			t.Errorf("%s: %v; runs aside: want %v", x.e, err, x.long)
		}
		close(goOn)
		for range most {
			<-ended
		}
		stop()
	}
}
