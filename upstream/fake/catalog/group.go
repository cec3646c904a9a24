package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// GroupSettings are the limits of a resource group, as they stand in its JSON.
type GroupSettings struct {
	RURate     uint64          `json:"ru_per_sec"`
	Priority   uint64          `json:"priority"`
	CPULimiter string          `json:"cpu_limit"`
	IORead     string          `json:"io_read_bandwidth"`
	IOWrite    string          `json:"io_write_bandwidth"`
	BurstLimit int64           `json:"burst_limit"`
	Runaway    json.RawMessage `json:"runaway"`
	Background json.RawMessage `json:"background"`
}

// groupInfo is a resource group, as TiDB keeps it.
type groupInfo struct {
	*GroupSettings
	ID    int64 `json:"id"`
	Name  Name  `json:"name"`
	State State `json:"state"`
}

type groupArgs struct {
	Group *groupInfo `json:"rg_info,omitempty"`
}

// priorityMedium is the priority of a group that is given none.
const priorityMedium = 8

func groupKey(id int64) string { return fmt.Sprint("ResourceGroups/RG:", id) }

func (c *Catalog) group(name string) *groupInfo {
	for _, key := range slices.Sorted(maps.Keys(c.other)) {
		if strings.HasPrefix(key, "ResourceGroups/") {
			if g := flaggedValue[groupInfo](c, key); g != nil && g.Name.L == fold(name) {
				return g
			}
		}
	}
	return nil
}

func settingsOf(options []*ast.ResourceGroupOption) *GroupSettings {
	out := &GroupSettings{Priority: priorityMedium}
	burst := false
	for _, o := range options {
		switch o.Tp {
		case ast.ResourceRURate:
			out.RURate = o.UintValue
		case ast.ResourcePriority:
			out.Priority = o.UintValue
		case ast.ResourceBurstable:
			burst = o.Burstable != ast.BurstableDisable
		}
	}
	out.BurstLimit = int64(out.RURate)
	if burst {
		out.BurstLimit = -1
	}
	return out
}

func (p *planner) groupJob(action Action, id int64, name string, args *groupArgs) *Job {
	j := p.job(action, nil, nil, args)
	j.info.SchemaID, j.info.SchemaName = id, fold(name)
	j.info.Involving = []Involving{{ResourceGroup: fold(name)}}
	return j
}

func (p *planner) createGroup(s *ast.CreateResourceGroupStmt) error {
	if p.c.group(s.ResourceGroupName.L) != nil {
		if s.IfNotExists {
			return nil
		}
		return refuse(8248, "Resource group '%s' already exists", s.ResourceGroupName.O)
	}
	g := &groupInfo{GroupSettings: settingsOf(s.ResourceGroupOptionList), Name: MakeName(s.ResourceGroupName.O)}
	j := p.groupJob(ActionCreateGroup, 0, g.Name.L, &groupArgs{g})
	j.assign = func(ids *allocator) { g.ID = ids.next() }
	return nil
}

func (p *planner) alterGroup(s *ast.AlterResourceGroupStmt) error {
	old := p.c.group(s.ResourceGroupName.L)
	if old == nil {
		if s.IfExists {
			return nil
		}
		return refuse(8249, "Unknown resource group '%s'", s.ResourceGroupName.O)
	}
	g := &groupInfo{GroupSettings: settingsOf(s.ResourceGroupOptionList), Name: old.Name}
	p.groupJob(ActionAlterGroup, old.ID, old.Name.L, &groupArgs{g})
	return nil
}

func (p *planner) dropGroup(s *ast.DropResourceGroupStmt) error {
	old := p.c.group(s.ResourceGroupName.L)
	if old == nil {
		if s.IfExists {
			return nil
		}
		return refuse(8249, "Unknown resource group '%s'", s.ResourceGroupName.O)
	}
	p.groupJob(ActionDropGroup, old.ID, old.Name.L, &groupArgs{&groupInfo{Name: MakeName(s.ResourceGroupName.O)}})
	return nil
}

// groupStep creates, alters or drops a resource group.
func (w *work) groupStep(a *groupArgs) error {
	switch w.info.Type {
	case ActionCreateGroup:
		if w.c.group(a.Group.Name.L) != nil {
			return w.cancel(8248, "Resource group '%s' already exists", a.Group.Name.O)
		}
		w.info.SchemaID = a.Group.ID
		a.Group.State = StatePublic
		w.bump(nil)
		w.done(StatePublic)
		return w.putFlagged(groupKey(a.Group.ID), a.Group)
	case ActionAlterGroup:
		old := flaggedValue[groupInfo](w.c, groupKey(w.info.SchemaID))
		if old == nil {
			return w.cancel(8249, "Unknown resource group '%s'", w.info.SchemaName)
		}
		old.GroupSettings = a.Group.GroupSettings
		w.bump(nil)
		w.done(StatePublic)
		return w.putFlagged(groupKey(old.ID), old)
	}
	w.bump(nil)
	w.put(groupKey(w.info.SchemaID), nil)
	w.j.args = nil
	w.done(StateNone)
	return nil
}
