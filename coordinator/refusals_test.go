package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// TestRefusals holds what an operator is told of everything that is typed wrong, or
// comes at the wrong time, to one file that a person can read through. A real node
// says it, before a fake upstream and a real database.
func TestRefusals(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		o := newOperator(t)
		return func(commands []string) string {
			var b strings.Builder
			for _, c := range commands {
				b.WriteString(o.shown(told(o.do(c))))
			}
			return b.String()
		}
	})
}

// told is an error as the commands print it, without what differs from run to run.
func told(err error) string {
	if err == nil {
		return "done\n"
	}
	out := err.Error()
	for _, r := range []struct{ from, to string }{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "<time>"}, {`no timestamp for \S+: .*`, "no timestamp for <time>"}, {`127\.0\.0\.1:\d{4,5}\b`, "127.0.0.1:<port>"}, {`\d{15,}`, "<number>"},
		{`[0-9a-f]{8}-[0-9a-f-]{27}`, "<capture>"}, {`MariaDB 1\d\.\S+`, "MariaDB <version>"}, {`'[a-z]+'@'[a-z0-9.]+'`, "<user>"},
	} {
		out = regexp.MustCompile(r.from).ReplaceAllString(out, r.to)
	}
	out += "\n"
	if code := cdcerr.Of(err); code != nil {
		out += "  meaning: " + code.Meaning + "\n  remedy:  " + code.Remedy + "\n"
	} else {
		out += "  no code: a bug\n"
	}
	return out
}

// operator does what the commands say.
type operator struct {
	*site
	node  *node
	pd    *pd
	early tso.TS // below what GC has taken
	s3    string // a bucket of a server
}

// places are directories in which somebody's redo logs are, or what is none.
func (o *operator) places() {
	for name, text := range map[string]string{
		"newer":   `{"version":9}`,
		"foreign": `{"version":1,"cluster":1,"servers":"test"}`,
		"theirs":  fmt.Sprintf(`{"version":1,"cluster":%d,"servers":"another"}`, o.cluster.ClusterID()),
		"strange": "hello",
	} {
		must(o.T, os.Mkdir(filepath.Join(o.dir, name), 0o755))
		must(o.T, os.WriteFile(filepath.Join(o.dir, name, "sluice-redo.json"), []byte(text+"\n"), 0o600))
	}
	must(o.T, os.WriteFile(filepath.Join(o.dir, "plain"), nil, 0o600))
	o.s3 = objstoretest.S3(o.T)
}

// stored is a storage URI as commands have it: in DIR, of the bucket S3, of one that is
// not there, of one to which the key does not fit.
func (o *operator) stored(text string) string {
	bucket, query, _ := strings.Cut(o.s3, "?")
	values, err := url.ParseQuery(query)
	must(o.T, err)
	denied := maps.Clone(values)
	denied.Set("secret-access-key", "wrong")
	lost := "s3://not-there/log?" + query
	return strings.NewReplacer("DIR", "file://"+o.dir, "S3-DENIED", bucket+"?"+denied.Encode(), "S3-LOST", lost).Replace(text)
}

// shown leaves out where all that is.
func (o *operator) shown(text string) string {
	text = strings.ReplaceAll(text, o.dir, "<dir>")
	text = strings.ReplaceAll(text, strconv.FormatUint(o.cluster.ClusterID(), 10), "<upstream>")
	text = regexp.MustCompile(`127\.0\.0\.1%3A\d+`).ReplaceAllString(text, "<server>")
	return regexp.MustCompile(`sluice-probe-[a-z0-9]+`).ReplaceAllString(text, "sluice-probe-<number>")
}

func newOperator(t *testing.T) *operator {
	s := newSite(t)
	o := &operator{site: s, early: s.cluster.TS(), pd: s.pd()}
	must(t, s.bank.Prepare(t.Context()))
	must(t, s.bank.Server.Exec(t.Context(), "CREATE TABLE nokey (a int, b int)", catalog.Session{DB: "bank"}, nil))
	o.pd.collect(s.cluster.TS())
	o.places()
	o.node = s.node()
	for _, sql := range []string{"CREATE USER reader@'%' IDENTIFIED BY 'r'", "GRANT SELECT, DROP, CREATE, ALTER, INDEX ON *.* TO reader@'%'"} {
		s.sql(s.down, sql)
	}
	return o
}

// do carries one command out:
//
//	create [name=…] [start=…] [target=…] [sink=…] [upstream=…] [json=…]
//	update, resume [overwrite=…], pause, remove, get, drain
//	PD stops | wait for STATE
//
// Times are from now, or early: below what GC has taken. What json= says comes last.
func (o *operator) do(command string) error {
	command, text, _ := strings.Cut(command, " json=")
	words := strings.Fields(command)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	args["json"] = text
	ctx, id := o.Context(), feed
	if args["name"] != "" {
		id.Name = strings.ReplaceAll(args["name"], "_", " ")
	}
	switch words[0] {
	case "create":
		c, err := o.creationOf(args)
		if err != nil {
			return err
		}
		c.ID = id
		_, err = o.node.Create(ctx, c)
		return err
	case "pause":
		return o.node.Pause(ctx, id)
	case "resume":
		return o.node.Resume(ctx, id, o.ts(args["overwrite"]))
	case "remove":
		return o.node.Remove(ctx, id)
	case "get":
		_, err := o.node.Get(ctx, id)
		return err
	case "update":
		c, err := o.creationOf(args)
		if err != nil {
			return err
		}
		change := api.Change{Config: c.Config}
		if args["target"] != "" {
			change.TargetTS = &c.TargetTS
		}
		if args["sink"] != "" {
			change.SinkURI = &c.SinkURI
		}
		_, err = o.node.Update(ctx, id, change)
		return err
	case "drain":
		_, err := o.node.Drain(ctx, o.node.Self().ID)
		return err
	case "wait":
		o.until("it is "+words[2], func() bool { f, err := o.node.Get(ctx, id); return err == nil && f.State == words[2] })
		return nil
	case "PD":
		return o.cluster.StopPD(ctx, 0)
	}
	return errors.New("no such command: " + command)
}

// creationOf reads what a command asks for.
func (o *operator) creationOf(args map[string]string) (c api.Creation, err error) {
	c.StartTS, c.TargetTS, c.SinkURI = o.ts(args["start"]), o.ts(args["target"]), o.down.URI()
	if args["sink"] != "" {
		c.SinkURI = strings.ReplaceAll(args["sink"], "DOWN", o.down.Addr())
	}
	if args["sink"] == "the-upstream-itself" {
		c.SinkURI = o.twin()
	}
	if args["upstream"] != "" {
		if c.UpstreamID, err = strconv.ParseUint(args["upstream"], 10, 64); err != nil {
			return c, err
		}
	}
	if args["json"] != "" {
		c.Config = json.RawMessage(o.stored(args["json"]))
	}
	return c, nil
}

// ts is a timestamp as commands have it: seconds from now, or early.
func (o *operator) ts(text string) tso.TS {
	switch text {
	case "":
		return 0
	case "early":
		return o.early
	}
	d, err := time.ParseDuration(text)
	must(o.T, err)
	return tso.At(o.cluster.TS().Time().Add(d))
}

// sql has a database do something.
func (s *site) sql(on *mariadb.Server, text string) {
	s.Helper()
	db := on.DB()
	_, err := db.ExecContext(s.Context(), text)
	must(s.T, errors.Join(err, db.Close()))
}

// twin is a database that says that it is the upstream's TiDB.
func (o *operator) twin() string {
	s := mariadb.Start(o.T, "--version=8.0.11-TiDB-v8.5.1")
	for _, sql := range []string{
		"CREATE TABLE mysql.tidb (VARIABLE_NAME varchar(64) PRIMARY KEY, VARIABLE_VALUE varchar(1024))",
		fmt.Sprintf("INSERT INTO mysql.tidb VALUES ('cluster_id', '%d')", o.cluster.ClusterID()),
	} {
		o.sql(s, sql)
	}
	return s.URI()
}
