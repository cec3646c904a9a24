package playground

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink/mysql"
	"github.com/sluice-cdc/sluice/strict"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// defaultRecording is what the demo replays: nine seconds of three connections
// that write while thirteen MODIFY COLUMNs rewrite their four tables.
const defaultRecording = "testdata/golden/workloads/onlinemodify.jsonl.gz"

// The factors of recorded time that make sense: at a thousandth, a minute takes
// seventeen hours; at a million nothing waits any more.
const (
	slowest = 0.001
	fastest = 1_000_000.0
)

// Options are the command line.
type Options struct {
	Recordings   []string   // files or directories
	Workload     Workload   // what to run on a live cluster instead
	Captures     int        // servers that share the workload's changefeed; 0: none, it runs in this process
	Script       []incident // what befalls them
	PD           []string   // a running cluster to follow instead
	TLS          upstream.TLS
	Filter       []string // which of its tables; all of them where there is none
	SinkURI      string   // empty: the embedded database
	Verify       bool     // exit after the verdict
	Speed        float64  // 1 = as it was recorded, 0 = as fast as it is read
	DropExisting bool
	Port         int // of the embedded database, 0 for a free one
}

// Workload is what happens on a live cluster.
type Workload struct {
	Kind     string // empty: there is none
	Rate     int    // transactions a second
	Duration time.Duration
	Seed     uint64 // 0 draws one
	Storm    bool   // faults befall the cluster meanwhile
}

// repeated collects the values of a flag that may be given more than once.
type repeated struct{ to *[]string }

func (r repeated) String() string { return "" }

func (r repeated) Set(s string) error {
	*r.to = append(*r.to, s)
	return nil
}

// embeddedLimits are what to know of the database in this process.
const embeddedLimits = `The database in this process is for a first look, and some of what TiDB does is
beyond it: its tables are not partitioned, it has no fractions of a TIME, no zero
dates, no primary keys on prefixes and no renames from one database to another;
it prints JSON's 1.0 as 1 and rounds JSON's large numbers, gives old rows another
default for an ENUM that is added, breaks the connection at a MODIFY COLUMN to
TIMESTAMP, and refuses some of what --workload ddl does. A MariaDB, MySQL or TiDB
can do more: give its --sink-uri.
`

// ParseOptions reads the arguments after the command's name. What is wrong with
// them, and the help that was asked for (flag.ErrHelp), is told on stderr.
func ParseOptions(args []string, stderr io.Writer) (*Options, error) {
	o := &Options{}
	speed, script := "", ""
	f := flag.NewFlagSet("playground", flag.ContinueOnError)
	f.SetOutput(io.Discard) // its own words are followed by sixty lines of help
	f.Var(repeated{&o.Recordings}, "recording", "recording to replay: `FILE_OR_DIR`; a directory stands for every recording directly in it; may be repeated (default "+defaultRecording+")")
	f.StringVar(&o.Workload.Kind, "workload", "", "run a workload on a live cluster instead of a recording: `KIND` is "+strings.Join(workload.Kinds(), ", "))
	f.IntVar(&o.Workload.Rate, "rate", 0, "with --workload: `N` transactions a second (default 200)")
	f.DurationVar(&o.Workload.Duration, "duration", 0, "with --workload: for how long, such as 30s (default 10s)")
	f.Uint64Var(&o.Workload.Seed, "seed", 0, "with --workload: `N` decides what happens (default: another one each time)")
	f.BoolVar(&o.Workload.Storm, "storm", false, "with --workload: regions, stores and PD fail in every way that TiKV allows meanwhile")
	f.IntVar(&o.Captures, "captures", 0, "with --workload: `N` real servers in this process share the changefeed, as captures of one cluster")
	f.StringVar(&script, "script", "", "with --captures: what befalls them while the workload writes, such as `\"5s drain, 12s kill leader, 20s join\"` (default: one of each)")
	f.Func("pd", "follow a running TiDB from now on, until Ctrl-C, instead of a recording: `ENDPOINTS` of its PD, comma between", func(v string) error {
		o.PD = strings.Split(v, ",")
		return nil
	})
	f.StringVar(&o.TLS.CA, "ca", "", "with --pd: `FILE` of the cluster's certificate authority")
	f.StringVar(&o.TLS.Cert, "cert", "", "with --pd: `FILE` of our certificate")
	f.StringVar(&o.TLS.Key, "key", "", "with --pd: `FILE` of its key")
	f.Var(repeated{&o.Filter}, "filter", "with --pd: `RULE` for the tables to replicate, such as 'shop.*' or '!shop.log'; may be repeated, the last that matches counts (default *.*)")
	f.StringVar(&o.SinkURI, "sink-uri", "", "downstream `URI`: blackhole://, mysql://user:password@host:port/ (default: a database in this process)")
	f.BoolVar(&o.Verify, "verify", false, "exit after the verdict; without it the database in this process stays up until Ctrl-C")
	f.StringVar(&speed, "speed", "", "1 replays as it was recorded, 2 twice as fast, 0 as fast as it is read (default 1, with --verify 0)")
	f.BoolVar(&o.DropExisting, "drop-existing", false, "drop the recording's databases downstream even where tables stand in them that the playground did not make; without it such a run is refused")
	f.IntVar(&o.Port, "mysql-port", 0, "port on 127.0.0.1 of the database in this process (default: a free one)")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		usage(f, stderr)
		return nil, err
	}
	if err != nil {
		err = typed(f, err)
	} else if err = given(f, o); err == nil {
		err = o.complete(f.Args(), speed, script)
	}
	if err != nil {
		fmt.Fprintln(stderr, cdcerr.Explain(err))
		return nil, err
	}
	return o, nil
}

// typed says shortly what of the flags cannot be read.
func typed(f *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return cdcerr.InvalidArgument.New("%s; --help lists all flags", err)
	}
	var names []string
	f.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	name = "--" + strings.TrimLeft(name, "-")
	near := ""
	if n := strict.Nearest(name, names); n != "" {
		near = fmt.Sprintf(", did you mean %s?", n)
	}
	return cdcerr.InvalidArgument.New("there is no flag %s%s; --help lists all", name, near)
}

// given refuses values that would be taken for none.
func given(f *flag.FlagSet, o *Options) (err error) {
	f.Visit(func(given *flag.Flag) {
		switch {
		case given.Name == "sink-uri" && o.SinkURI == "":
			err = cdcerr.InvalidArgument.New("--sink-uri is empty: leave it out for the database in this process")
		case given.Name == "captures" && (o.Captures < 1 || o.Captures > capturesMax):
			err = cdcerr.InvalidArgument.New("--captures %d: want 1 to %d servers", o.Captures, capturesMax)
		case given.Name == "script" && given.Value.String() == "":
			err = cdcerr.InvalidArgument.New("--script is empty: leave it out for the default; %s", scriptForm)
		case given.Name == "rate" && o.Workload.Rate < 1:
			err = cdcerr.InvalidArgument.New("--rate %d: want at least 1 transaction a second", o.Workload.Rate)
		case given.Name == "duration" && o.Workload.Duration <= 0:
			err = cdcerr.InvalidArgument.New("--duration %v: want a time such as 30s", o.Workload.Duration)
		}
	})
	return err
}

func usage(f *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, `Replays what a real TiDB did through Sluice into a database, and compares.

  playground [flags]
  playground --workload KIND [flags]    runs a workload on a live cluster instead, and compares
  playground --workload KIND --captures N [flags]   with N servers, which come and go
  playground --pd ENDPOINTS [flags]     follows a running TiDB; nothing to compare with

`)
	f.PrintDefaults()
	fmt.Fprint(w, `
One line a recording, or for the workload, goes to stdout:
  NAME rows=equal|differ(n)|unseen end=equal|differ(n)|listed(n) seconds
With --captures rows go past nobody who could judge them one by one (unseen); the
end is judged, and of a bank the sum of all accounts.
`+embeddedLimits+`
In a database of yours the playground drops and makes the databases that a run
writes, and keeps in sluice_playground.left_tables which tables it has made; it
refuses databases with other tables. It needs the rights to do that.

Exit status: 0 all equal (what is listed with its reason counts as equal),
1 something differs, 2 something could not run.
`)
}

func (o *Options) complete(rest []string, speed, script string) error {
	if len(rest) > 0 {
		return cdcerr.InvalidArgument.New("argument %q: recordings are given with --recording", rest[0])
	}
	if err := o.oneUpstream(speed); err != nil {
		return err
	}
	if err := o.shared(script); err != nil {
		return err
	}
	if err := o.live(speed); err != nil {
		return err
	}
	if err := o.play(script); err != nil {
		return err
	}
	if len(o.Recordings) == 0 {
		o.Recordings = []string{defaultRecording}
	}
	switch {
	case speed != "":
		v, err := strconv.ParseFloat(speed, 64)
		if err != nil || !(v == 0 || v >= slowest && v <= fastest) {
			return cdcerr.InvalidArgument.New("--speed %s: want 0 (as fast as it is read) or a factor from %g to %g", speed, slowest, fastest)
		}
		o.Speed = v
	case !o.Verify:
		o.Speed = 1
	}
	if o.Port < 0 || o.Port > 65535 {
		return cdcerr.InvalidArgument.New("--mysql-port %d: want 0 to 65535", o.Port)
	}
	if o.Port != 0 && o.SinkURI != "" {
		return cdcerr.InvalidArgument.New("--mysql-port belongs to the database in this process: leave --sink-uri out")
	}
	return nil
}

// oneUpstream refuses what belongs to a recording beside a running cluster, and
// the other way round.
func (o *Options) oneUpstream(speed string) error {
	if len(o.PD) == 0 {
		if o.TLS.CA != "" || o.TLS.Cert != "" || o.TLS.Key != "" || len(o.Filter) > 0 {
			return cdcerr.InvalidArgument.New("--ca, --cert, --key and --filter belong to a running cluster: give its --pd")
		}
		return nil
	}
	if len(o.Recordings) > 0 || o.Verify || speed != "" {
		return cdcerr.InvalidArgument.New("--recording, --verify and --speed belong to a recording: leave them out, or leave --pd out")
	}
	return nil
}

// live completes what belongs to a workload, and refuses what does not.
func (o *Options) live(speed string) error {
	w := &o.Workload
	bad := cdcerr.InvalidArgument.New
	switch {
	case w.Kind == "" && *w != Workload{}:
		return bad("--rate, --duration, --seed and --storm belong to a workload: give a --workload")
	case w.Kind == "":
		return nil
	case !slices.Contains(workload.Kinds(), w.Kind):
		return bad("--workload %q: want one of %s", w.Kind, strings.Join(workload.Kinds(), ", "))
	case len(o.Recordings) > 0 || len(o.PD) > 0 || speed != "":
		return bad("--recording, --pd and --speed have no place beside --workload")
	}
	if w.Rate == 0 {
		w.Rate = 200
	}
	if w.Duration == 0 && o.Captures == 0 {
		w.Duration = 10 * time.Second
	}
	return nil
}

// shared refuses what captures cannot be given, and what only they can.
func (o *Options) shared(script string) error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case o.Captures == 0 && script != "":
		return bad("--script belongs to --captures: say how many")
	case o.Captures == 0:
		return nil
	case len(o.Recordings) > 0:
		return bad("--captures has no place beside --recording: a recording is judged row by row on its way past one capture; give a --workload")
	case len(o.PD) > 0:
		return bad("--captures has no place beside --pd: a look at a TiDB needs one capture, and the service is several of `sluice server`")
	case o.Workload.Kind == "":
		return bad("--captures needs a cluster that lives: give a --workload")
	}
	if scheme, _, _ := strings.Cut(o.SinkURI, "://"); o.SinkURI != "" && !mysql.Handles(scheme) {
		return bad("--captures needs a downstream that keeps what it is given, and %s:// would leave nothing to judge: leave --sink-uri out, or give a database", scheme)
	}
	return nil
}

// playFor is for how long a workload writes to captures unless told otherwise, and how
// long after the last event.
const playFor, playOn = 30 * time.Second, 5 * time.Second

// play completes what befalls captures.
func (o *Options) play(script string) (err error) {
	if o.Captures == 0 {
		return nil
	}
	d := &o.Workload.Duration
	if script == "" {
		*d = cmp.Or(*d, playFor)
		o.Script = defaultScript(o.Captures, *d)
		return nil
	}
	if o.Script, err = parseScript(script, o.Captures); err != nil {
		return err
	}
	last := o.Script[len(o.Script)-1]
	if *d == 0 {
		*d = max(playFor, last.at+playOn)
	}
	if last.at > *d {
		return cdcerr.InvalidArgument.New("--script: %v comes when nothing is written any more, after %v; give a longer --duration", last, *d)
	}
	return nil
}
