package cli

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/lab/whatif"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/recorded"
	"github.com/godwitdb/godwit/sql/recording"
)

// recordingName is the file of a recording in a debug zip.
const recordingName = "recording.json"

// question is what `godwit whatif` is asked.
type question struct {
	endpoint
	file, save              string
	add, drop               []string
	matrix                  string
	localities, do, session []string
	clients                 []string
	statements, plays       int
	json                    bool
}

func whatifCommand() *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "whatif",
		Short: "Play what clients did lately on a cluster that is changed, and show what it would cost",
		Long: `Take what the clients of a cluster have done lately from the memory of its nodes, and play it in this process with
the real program in virtual time: first on a cluster as it is, then on one that is changed. For each kind of statement and
region it prints p50, p99, round trips and bytes over the WAN, as measured in the cluster, played as it is, and predicted.

Nothing is changed in the cluster, and no literal leaves it: the nodes replace each by another one of the same form. With
--save the recording is written to a file, which --from reads, as well as a debug zip that was made with --recording.

Processors and disks take no time in the play. What statements that wait for nobody took more in the cluster is added to
the prediction; what waits for a busy processor is not in it.`,
		Example: `  godwit whatif --addr 127.0.0.1:7400 --locality shop.prices=GLOBAL
  godwit whatif --add-region ap-south-1 --clients eu-west-1:ap-south-1=0.4
  godwit whatif --drop-region us-west-2 --save today.json
  godwit whatif --from today.json --matrix longer.csv
  godwit whatif --from fault.zip --do "ALTER TABLE shop.carts ADD UNIQUE INDEX (code)"`,
		Args: cobra.NoArgs,
		RunE: q.run,
	}
	q.flags(c.Flags())
	f := c.Flags()
	f.StringVar(&q.file, "from", "", "file with a recording, or debug zip, in place of a cluster")
	f.StringVar(&q.save, "save", "", "write the recording to this new file")
	f.StringArrayVar(&q.add, "add-region", nil, "a region more; its round trips are those of --matrix, or of AWS")
	f.StringArrayVar(&q.drop, "drop-region", nil, "a region less; its clients go to the nearest one")
	f.StringVar(&q.matrix, "matrix", "", "CSV file with round trips in ms, which take the place of those that were measured")
	f.StringArrayVar(&q.localities, "locality", nil, "DATABASE.TABLE=LOCALITY, as ALTER TABLE ... SET LOCALITY takes it")
	f.StringArrayVar(&q.do, "do", nil, "a statement that is executed before, such as one that SHOW GODWIT ADVICE names")
	f.StringArrayVar(&q.session, "session", nil, "a statement that each client executes first, such as a SET")
	f.StringArrayVar(&q.clients, "clients", nil, "FROM:TO=SHARE: so many of the clients in one region are in another one")
	f.IntVar(&q.statements, "statements", 20_000, "how many statements are played at most, the newest")
	f.IntVar(&q.plays, "plays", 0, "how often they are played, each time with other pauses; 0: up to 4 times, for 40,000 in all")
	f.BoolVar(&q.json, "json", false, "print one JSON object")
	return c
}

func (q *question) run(c *cobra.Command, _ []string) error {
	change, err := q.change()
	if err != nil {
		return err
	}
	f, err := q.recording(c.Context())
	if err != nil {
		return err
	}
	if q.save != "" {
		if err := saveRecording(q.save, f); err != nil {
			return err
		}
	}
	f.Newest(q.statements)
	plays := cmp.Or(q.plays, whatif.Plays(f))
	played, err := whatif.Play(c.Context(), f, whatif.Change{}, plays)
	if err != nil {
		return err
	}
	after, err := whatif.Play(c.Context(), f, change, plays)
	if err != nil {
		return err
	}
	lines := whatif.Compare(whatif.Measured(f), played, after)
	out := c.OutOrStdout()
	if q.json {
		return json.NewEncoder(out).Encode(map[string]any{"at": f.At, "missed": f.Missed, "statements": lines,
			"wan_bytes_per_s": played.Rate(), "wan_bytes_per_s_after": after.Rate()})
	}
	if _, err := fmt.Fprintf(out, "%d sessions, recorded up to %s; %d statements were not recorded\n\n", len(f.Sessions),
		f.At.Format(time.DateTime), f.Missed); err != nil {
		return err
	}
	return whatif.Write(out, lines, played, after)
}

// change reads the flags.
func (q *question) change() (c whatif.Change, err error) {
	c = whatif.Change{Add: q.add, Drop: q.drop, Do: q.do, Session: q.session, Localities: map[string]string{}}
	for _, l := range q.localities {
		table, clause, ok := strings.Cut(l, "=")
		if !ok || !strings.Contains(table, ".") {
			return c, usagef("--locality: %q is not DATABASE.TABLE=LOCALITY", l)
		}
		c.Localities[strings.ToLower(table)] = clause
	}
	for _, m := range q.clients {
		ways, share, ok := strings.Cut(m, "=")
		from, to, two := strings.Cut(ways, ":")
		x, err := strconv.ParseFloat(share, 64)
		if !ok || !two || err != nil || !(x > 0 && x <= 1) {
			return c, usagef("--clients: %q is not FROM:TO=SHARE, with a share above 0, up to 1", m)
		}
		c.Clients = append(c.Clients, whatif.Move{From: from, To: to, Share: x})
	}
	if q.statements < 1 {
		return c, usagef("--statements: %d is below 1", q.statements)
	}
	if q.plays < 0 {
		return c, usagef("--plays: %d is below 0", q.plays)
	}
	if q.matrix != "" {
		r, err := os.Open(q.matrix)
		if err != nil {
			return c, usageError{err}
		}
		defer r.Close()
		if c.Matrix, err = matrix.Parse(r, q.matrix); err != nil {
			return c, err
		}
	}
	return c, nil
}

// recording reads one from a file, or asks a node.
func (q *question) recording(ctx context.Context) (*recording.File, error) {
	if q.file == "" {
		if err := q.validate(); err != nil {
			return nil, err
		}
		f := new(recording.File)
		return f, q.call(ctx, recorded.Path, struct{}{}, f)
	}
	b, err := readRecording(q.file)
	if err != nil {
		return nil, err
	}
	f := new(recording.File)
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%s has no recording: %w", q.file, err)
	}
	if f.Version < 1 || f.Version > recording.FileVersion {
		return nil, fmt.Errorf("%s has a recording of form %d, and this program reads 1 to %d", q.file, f.Version, recording.FileVersion)
	}
	return f, nil
}

func readRecording(file string) ([]byte, error) {
	if filepath.Ext(file) != ".zip" {
		return os.ReadFile(file)
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r, err := z.Open(recordingName)
	if err != nil {
		return nil, errors.New(file + " has no " + recordingName + ": make it with godwit debug zip --recording")
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxAnswer))
}

func saveRecording(file string, f *recording.File) error {
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(w).Encode(f), w.Close())
}
