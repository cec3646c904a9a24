package catalog

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
)

type commentArgs struct {
	Comment string `json:"comment,omitempty"`
}

type rebaseArgs struct {
	NewBase int64 `json:"new_base,omitempty"`
	Force   bool  `json:"force,omitempty"`
}

type idCacheArgs struct {
	NewCache int64 `json:"new_cache,omitempty"`
}

type shardBitsArgs struct {
	Bits uint64 `json:"shard_row_id_bits,omitempty"`
}

type ttlArgs struct {
	TTL      *TTLInfo `json:"ttl_info,omitempty"`
	Enable   *bool    `json:"ttl_enable,omitempty"`
	Interval *string  `json:"ttl_cron_job_schedule,omitempty"`
}

type policyRefArgs struct {
	Policy *PolicyRef `json:"placement_policy_ref,omitempty"`
}

type replicaArgs struct {
	Replica *tiflashReplica `json:"replica_info,omitempty"`
}

// attributesArgs go to PD: a table, or a partition, is placed by a rule of this name.
type attributesArgs struct {
	PartitionID int64      `json:"partition_id,omitempty"`
	Rule        *labelRule `json:"label_rule,omitempty"`
}

type labelRule struct {
	ID     string   `json:"id"`
	Labels []string `json:"labels"`
}

// emptyArgs are those of actions that need none.
type emptyArgs struct{}

// tiflashReplica is how many columnar copies a table has.
type tiflashReplica struct {
	Count                 uint64
	LocationLabels        []string
	Available             bool
	AvailablePartitionIDs []int64
}

// options plans the options of an ALTER TABLE.
func (a *alteration) options(options []*ast.TableOption) ([]*change, error) {
	var out []*change
	add := func(action Action, args any) {
		out = append(out, &change{action: action, args: args, meta: a.plainMeta(), vars: a.multiVars()})
	}
	var recoded bool
	for _, o := range options {
		switch o.Tp {
		case ast.TableOptionComment:
			add(ActionTableComment, &commentArgs{o.StrValue})
		case ast.TableOptionAutoIncrement:
			add(ActionRebaseAutoID, &rebaseArgs{NewBase: int64(o.UintValue), Force: o.BoolValue})
		case ast.TableOptionAutoRandomBase:
			if a.table.AutoRandomBits == 0 {
				return nil, refuse(8216, "Invalid auto random: alter auto_random_base of a non auto_random table")
			}
			add(ActionRebaseAutoRandom, &rebaseArgs{NewBase: int64(o.UintValue), Force: o.BoolValue})
		case ast.TableOptionAutoIdCache:
			add(ActionAutoIDCache, &idCacheArgs{int64(o.UintValue)})
		case ast.TableOptionShardRowID:
			if a.table.PKIsHandle || a.table.IsCommonHandle {
				return nil, refuse(errUnsupported, "Unsupported shard_row_id_bits for table with primary key as row id")
			}
			add(ActionShardRowID, &shardBitsArgs{o.UintValue})
		case ast.TableOptionCharset, ast.TableOptionCollate:
			if recoded {
				continue
			}
			c, err := a.newCharset(options)
			if err != nil {
				return nil, err
			}
			recoded = c != nil
			if c != nil {
				out = append(out, c)
			}
		case ast.TableOptionPlacementPolicy:
			c, err := a.tablePolicy(o.StrValue)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	info, enable, err := a.ttl(a.table, options)
	if err != nil {
		return nil, err
	}
	if info != nil || enable != nil {
		if info == nil && a.table.TTL == nil {
			return nil, refuse(8150, "Cannot set TTL_ENABLE on a table without TTL config")
		}
		add(ActionAlterTTL, &ttlArgs{TTL: info, Enable: enable})
	}
	return out, nil
}

// charset plans a new default character set, or with CONVERT TO a new one for
// every column too.
func (a *alteration) newCharset(options []*ast.TableOption) (*change, error) {
	outer := collation{a.table.Charset, a.table.Collate}
	cs, err := a.c.tableCollation(options, outer)
	if err != nil {
		return nil, err
	}
	overwrite := false
	for _, o := range options {
		if o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo {
			overwrite = true
		}
	}
	if cs == outer && !overwrite {
		return nil, nil
	}
	if err := outer.into(cs); err != nil {
		return nil, err
	}
	for _, c := range a.table.Columns {
		if !overwrite || !c.Type.hasCharset() || c.Type.Charset == charset.CharsetBin {
			continue
		}
		was := collation{c.Type.Charset, c.Type.Collate}
		if err := was.into(cs); err != nil {
			return nil, err
		}
		if err := a.indexed(c, cs); err != nil {
			return nil, err
		}
	}
	args := &charsetArgs{Charset: cs.charset, Collate: cs.collate, Overwrite: overwrite}
	return &change{action: ActionTableCharset, args: args, meta: a.plainMeta(), vars: a.multiVars()}, nil
}

func (a *alteration) tablePolicy(name string) (*change, error) {
	ref, err := a.policyRef(name)
	if err != nil {
		return nil, err
	}
	c := &change{action: ActionTablePolicy, args: &policyRefArgs{ref}}
	if ref != nil {
		c.involving = []Involving{{Database: a.db.Name.L, Table: a.table.Name.L}, {Policy: ref.Name.L, Mode: 1}}
	}
	return c, nil
}

func (a *alteration) removeTTL() (*change, error) {
	if a.table.TTL == nil {
		return nil, nil
	}
	return &change{action: ActionRemoveTTL, args: &emptyArgs{}}, nil
}

// What TiDB notes of a table that it caches.
const (
	cacheOff       = 0
	cacheOn        = 1
	cacheSwitching = 2
)

func (a *alteration) cache(on bool) (*change, error) {
	action := ActionCacheTable
	if !on {
		action = ActionNoCacheTable
	}
	if on == (a.table.CacheStatus == cacheOn) {
		return nil, nil
	}
	if on && a.table.Partition != nil {
		return nil, refuse(8242, "'ALTER TABLE CACHE' is unsupported on partition tables.")
	}
	return &change{action: action, args: &emptyArgs{}}, nil
}

func (a *alteration) tiflash(s *ast.TiFlashReplicaSpec) (*change, error) {
	args := &replicaArgs{&tiflashReplica{Count: s.Count, LocationLabels: s.Labels}}
	return &change{action: ActionTiFlashReplica, args: args}, nil
}

// attributes plans ATTRIBUTES of a table or of one of its partitions. They are
// PD's: the table is only written anew. No recording has such a job.
func (a *alteration) attributes(s *ast.AlterTableSpec) (*change, error) {
	c := &change{action: ActionTableAttributes, meta: a.plainMeta(), vars: a.multiVars()}
	args := &attributesArgs{Rule: &labelRule{ID: fmt.Sprintf("schema/%s/%s", a.db.Name.L, a.table.Name.L)}}
	if s.Tp == ast.AlterTablePartitionAttributes {
		if a.table.Partition == nil {
			return nil, refuse(errNoPartition, "Partition management on a not partitioned table is not possible")
		}
		at, err := a.chosen(s.PartitionNames, false)
		if err != nil {
			return nil, err
		}
		d := a.table.Partition.Definitions[at[0]]
		c.action, args.PartitionID = ActionPartAttributes, d.ID
		args.Rule.ID += "/" + d.Name.L
	}
	if !s.AttributesSpec.Default {
		args.Rule.Labels = strings.Split(s.AttributesSpec.Attributes, ",")
	}
	c.args = args
	return c, nil
}

// cacheTable turns the cache of a table on or off, in two steps.
func (w *work) cacheTable() error {
	t, err := w.table()
	if t == nil {
		return err
	}
	end := uint8(cacheOn)
	if w.info.Type == ActionNoCacheTable {
		end = cacheOff
	}
	w.j.args = nil
	w.bump(nil)
	if t.CacheStatus != cacheSwitching {
		t.CacheStatus = cacheSwitching
		w.update(w.info.SchemaID, t)
		return nil
	}
	t.CacheStatus = end
	w.update(w.info.SchemaID, t)
	w.doneTable(StatePublic, t)
	return nil
}

// tableOption does the changes of a table that need one step.
func (w *work) tableOption(args any) error {
	return w.at(func(t *TableInfo) error {
		switch a := args.(type) {
		case *commentArgs:
			t.Comment = a.Comment
		case *rebaseArgs:
			w.rebase(t, a)
		case *idCacheArgs:
			t.AutoIDCache = a.NewCache
		case *shardBitsArgs:
			t.ShardRowIDBits = a.Bits
			t.MaxShardRowIDBits = max(t.MaxShardRowIDBits, a.Bits)
		case *charsetArgs:
			t.setCharset(a)
		case *ttlArgs:
			t.setTTL(a)
		case *policyRefArgs:
			t.Policy = a.Policy
		case *replicaArgs:
			return t.setReplica(a)
		case *attributesArgs:
		case *emptyArgs:
			t.TTL = nil
			w.j.args = nil
		}
		return nil
	})
}

func (w *work) rebase(t *TableInfo, a *rebaseArgs) {
	at := &t.AutoIncID
	if w.info.Type == ActionRebaseAutoRandom {
		at = &t.AutoRandID
	}
	if a.Force {
		*at = a.NewBase
		return
	}
	*at = max(*at, a.NewBase)
}

func (t *TableInfo) setCharset(a *charsetArgs) {
	t.Charset, t.Collate = a.Charset, a.Collate
	if !a.Overwrite {
		return
	}
	for _, c := range t.Columns {
		if c.Type.hasCharset() && c.Type.Charset != "binary" {
			c.Type.Charset, c.Type.Collate = a.Charset, a.Collate
		}
	}
}

func (t *TableInfo) setTTL(a *ttlArgs) {
	if a.TTL != nil {
		info := *a.TTL
		if a.Enable == nil && t.TTL != nil {
			info.Enable = t.TTL.Enable
		}
		t.TTL = &info
	}
	if a.Enable != nil && t.TTL != nil {
		t.TTL.Enable = *a.Enable
	}
	if a.Interval != nil && t.TTL != nil {
		t.TTL.JobInterval = *a.Interval
	}
}

func (t *TableInfo) setReplica(a *replicaArgs) error {
	if a.Replica == nil || a.Replica.Count == 0 {
		t.TiFlashReplica = nil
		return nil
	}
	text, err := json.Marshal(a.Replica)
	if err != nil {
		return err
	}
	t.TiFlashReplica = text
	return nil
}
