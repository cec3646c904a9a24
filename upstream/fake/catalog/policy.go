package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// placement is what a placement policy asks for.
type placement struct {
	PrimaryRegion       string `json:"primary_region"`
	Regions             string `json:"regions"`
	Learners            uint64 `json:"learners"`
	Followers           uint64 `json:"followers"`
	Voters              uint64 `json:"voters"`
	Schedule            string `json:"schedule"`
	Constraints         string `json:"constraints"`
	LeaderConstraints   string `json:"leader_constraints"`
	LearnerConstraints  string `json:"learner_constraints"`
	FollowerConstraints string `json:"follower_constraints"`
	VoterConstraints    string `json:"voter_constraints"`
	Survival            string `json:"survival_preferences"`
}

// policyInfo is a placement policy, as TiDB keeps it.
type policyInfo struct {
	placement
	ID    int64 `json:"id"`
	Name  Name  `json:"name"`
	State State `json:"state"`
}

type policyArgs struct {
	Policy  *policyInfo `json:"policy,omitempty"`
	Replace bool        `json:"replace_on_exist,omitempty"`
	Name    Name        `json:"policy_name"`
	ID      int64       `json:"policy_id"`
}

// flagged marks values that TiDB keeps behind a byte of their own.
const flagged = "\x00"

func policyKey(id int64) string { return fmt.Sprint("Policies/Policy:", id) }

// flaggedValue reads a value of that kind.
func flaggedValue[T any](c *Catalog, key string) *T {
	text, ok := strings.CutPrefix(string(c.other[key]), flagged)
	if !ok {
		return nil
	}
	out := new(T)
	if json.Unmarshal([]byte(text), out) != nil {
		return nil
	}
	return out
}

func (w *work) putFlagged(key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.put(key, append([]byte(flagged), text...))
	return nil
}

// policy finds a placement policy by its name.
func (c *Catalog) policy(name string) *policyInfo {
	for _, key := range slices.Sorted(maps.Keys(c.other)) {
		if strings.HasPrefix(key, "Policies/") {
			if p := flaggedValue[policyInfo](c, key); p != nil && p.Name.L == fold(name) {
				return p
			}
		}
	}
	return nil
}

// policyRef is a reference to the placement policy of that name, nil for the default.
func (p *planner) policyRef(name string) (*PolicyRef, error) {
	if fold(name) == "default" || name == "" {
		return nil, nil
	}
	found := p.c.policy(name)
	if found == nil {
		return nil, refuse(8239, "Unknown placement policy '%s'", name)
	}
	return &PolicyRef{ID: found.ID, Name: found.Name}, nil
}

func (p *planner) schemaPolicy(db *DBInfo, name string) error {
	ref, err := p.policyRef(name)
	if err != nil {
		return err
	}
	j := p.job(ActionSchemaPolicy, db, nil, &policyRefArgs{ref})
	j.info.Involving = whole(db.Name.L)
	if ref != nil {
		j.info.Involving = append(j.info.Involving, Involving{Policy: ref.Name.L, Mode: 1})
	}
	return nil
}

func (w *work) setSchemaPolicy(a *policyRefArgs) error {
	old := w.c.dbs[w.info.SchemaID]
	if old == nil {
		return w.cancel(errBadDB, "Unknown database '%s'", w.info.SchemaName)
	}
	db := old.clone()
	db.Policy = a.Policy
	w.bump(nil)
	w.putDB(db)
	w.doneDB(StatePublic, db)
	return nil
}

func placementOf(options []*ast.PlacementOption) placement {
	var out placement
	for _, o := range options {
		switch o.Tp {
		case ast.PlacementOptionPrimaryRegion:
			out.PrimaryRegion = o.StrValue
		case ast.PlacementOptionRegions:
			out.Regions = o.StrValue
		case ast.PlacementOptionFollowerCount:
			out.Followers = o.UintValue
		case ast.PlacementOptionVoterCount:
			out.Voters = o.UintValue
		case ast.PlacementOptionLearnerCount:
			out.Learners = o.UintValue
		case ast.PlacementOptionSchedule:
			out.Schedule = o.StrValue
		case ast.PlacementOptionConstraints:
			out.Constraints = o.StrValue
		case ast.PlacementOptionLeaderConstraints:
			out.LeaderConstraints = o.StrValue
		case ast.PlacementOptionLearnerConstraints:
			out.LearnerConstraints = o.StrValue
		case ast.PlacementOptionFollowerConstraints:
			out.FollowerConstraints = o.StrValue
		case ast.PlacementOptionVoterConstraints:
			out.VoterConstraints = o.StrValue
		case ast.PlacementOptionSurvivalPreferences:
			out.Survival = o.StrValue
		}
	}
	return out
}

// policyJob queues a job on a policy: it takes the place of a database.
func (p *planner) policyJob(action Action, id int64, name string, args *policyArgs) *Job {
	j := p.job(action, nil, nil, args)
	j.info.SchemaID, j.info.SchemaName = id, fold(name)
	j.info.Involving = []Involving{{Policy: fold(name)}}
	return j
}

func (p *planner) createPolicy(s *ast.CreatePlacementPolicyStmt) error {
	if p.c.policy(s.PolicyName.L) != nil {
		if s.IfNotExists {
			return nil
		}
		return refuse(8238, "Placement policy '%s' already exists", s.PolicyName.O)
	}
	info := &policyInfo{placement: placementOf(s.PlacementOptions), Name: MakeName(s.PolicyName.O)}
	j := p.policyJob(ActionCreatePolicy, 0, s.PolicyName.O, &policyArgs{Policy: info})
	j.policy = info
	return nil
}

func (p *planner) alterPolicy(s *ast.AlterPlacementPolicyStmt) error {
	old := p.c.policy(s.PolicyName.L)
	if old == nil {
		if s.IfExists {
			return nil
		}
		return refuse(8239, "Unknown placement policy '%s'", s.PolicyName.O)
	}
	info := &policyInfo{placement: placementOf(s.PlacementOptions), Name: old.Name}
	p.policyJob(ActionAlterPolicy, old.ID, old.Name.L, &policyArgs{Policy: info, ID: old.ID})
	return nil
}

func (p *planner) dropPolicy(s *ast.DropPlacementPolicyStmt) error {
	old := p.c.policy(s.PolicyName.L)
	if old == nil {
		if s.IfExists {
			return nil
		}
		return refuse(8239, "Unknown placement policy '%s'", s.PolicyName.O)
	}
	p.policyJob(ActionDropPolicy, old.ID, old.Name.L, &policyArgs{Name: MakeName(s.PolicyName.O), ID: old.ID})
	return nil
}

// policyStep creates, alters or drops a placement policy.
func (w *work) policyStep(a *policyArgs) error {
	switch w.info.Type {
	case ActionCreatePolicy:
		if w.c.policy(a.Policy.Name.L) != nil {
			return w.cancel(8238, "Placement policy '%s' already exists", a.Policy.Name.O)
		}
		w.info.SchemaID = a.Policy.ID
		a.Policy.State = StatePublic
		w.bump(nil)
		w.done(StatePublic)
		return w.putFlagged(policyKey(a.Policy.ID), a.Policy)
	case ActionAlterPolicy:
		old := flaggedValue[policyInfo](w.c, policyKey(a.ID))
		if old == nil {
			return w.cancel(8239, "Unknown placement policy '%s'", w.info.SchemaName)
		}
		old.placement = a.Policy.placement
		w.bump(nil)
		w.done(StatePublic)
		return w.putFlagged(policyKey(a.ID), old)
	}
	old := flaggedValue[policyInfo](w.c, policyKey(a.ID))
	if old == nil {
		return w.cancel(8239, "Unknown placement policy '%s'", w.info.SchemaName)
	}
	w.bump(nil)
	switch old.State {
	case StatePublic:
		old.State = StateWriteOnly
	case StateWriteOnly:
		old.State = StateDeleteOnly
	default:
		w.put(policyKey(a.ID), nil)
		w.done(StateNone)
		return nil
	}
	w.info.SchemaState = old.State
	return w.putFlagged(policyKey(a.ID), old)
}

// nextPolicyID takes the next id of policies, which has a counter of its own.
func (w *work) nextPolicyID() int64 {
	id := w.c.number("PolicyGlobalID") + 1
	w.put("PolicyGlobalID", []byte(strconv.FormatInt(id, 10)))
	return id
}
