package catalog

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

type checkArgs struct {
	Constraint *Constraint `json:"constraint_info,omitempty"`
	Name       *Name       `json:"constraint_name,omitempty"`
	Enforced   bool        `json:"enforced,omitempty"`
}

type foreignKeyArgs struct {
	ForeignKey *ForeignKey `json:"fk_info,omitempty"`
	FKCheck    bool        `json:"fk_check,omitempty"`
	Name       *Name       `json:"fk_name,omitempty"`
}

func (a *alteration) addCheck(c *ast.Constraint) (*change, error) {
	t := a.table
	if c.Name == "" {
		taken := map[string]bool{}
		for _, x := range t.Constraints {
			taken[x.Name.L] = true
		}
		c.Name = freeName(taken, t.Name.O+"_chk", 1)
	}
	if t.constraint(fold(c.Name)) != nil {
		return nil, refuse(3822, "Duplicate check constraint name '%s'.", c.Name)
	}
	info, err := checkInfo(t, c)
	if err != nil {
		return nil, err
	}
	return &change{action: ActionAddCheck, args: &checkArgs{Constraint: info}, prior: true}, nil
}

// constraint finds a CHECK by its name in lower case.
func (t *TableInfo) constraint(name string) *Constraint {
	for _, c := range t.Constraints {
		if c.Name.L == name {
			return c
		}
	}
	return nil
}

func (a *alteration) dropCheck(s *ast.AlterTableSpec) (*change, error) {
	c := a.table.constraint(fold(s.Constraint.Name))
	if c == nil {
		if a.table.foreignKey(fold(s.Constraint.Name)) != nil {
			return a.dropForeignKey(&ast.AlterTableSpec{Name: s.Constraint.Name})
		}
		return nil, refuse(3940, "Constraint '%s' does not exist.", s.Constraint.Name)
	}
	name := MakeName(s.Constraint.Name)
	return &change{action: ActionDropCheck, args: &checkArgs{Name: &name}}, nil
}

func (a *alteration) alterCheck(s *ast.AlterTableSpec) (*change, error) {
	if a.table.constraint(fold(s.Constraint.Name)) == nil {
		return nil, refuse(3940, "Constraint '%s' does not exist.", s.Constraint.Name)
	}
	name := MakeName(s.Constraint.Name)
	return &change{action: ActionAlterCheck, args: &checkArgs{Name: &name, Enforced: s.Constraint.Enforced}}, nil
}

// foreignKey finds a foreign key by its name in lower case.
func (t *TableInfo) foreignKey(name string) *ForeignKey {
	for _, k := range t.ForeignKeys {
		if k.Name.L == name {
			return k
		}
	}
	return nil
}

func (a *alteration) addForeignKey(c *ast.Constraint) (*change, error) {
	t := a.table
	if c.Name == "" {
		c.Name = freeName(map[string]bool{}, "fk", int(t.MaxForeignKeyID)+1)
	}
	if t.foreignKey(fold(c.Name)) != nil {
		return nil, refuse(1826, "Duplicate foreign key constraint name '%s'", c.Name)
	}
	fk, err := a.foreignKeyInfo(t, a.db, c)
	if err != nil {
		return nil, err
	}
	if !t.leads(fk.Cols) {
		return nil, refuse(errUnsupported, "a foreign key without an index over its columns")
	}
	fk.State = StateNone
	return &change{
		action: ActionAddForeignKey, args: &foreignKeyArgs{ForeignKey: fk, FKCheck: true}, meta: a.plainMeta(), vars: a.multiVars(),
		involving: []Involving{{Database: a.db.Name.L, Table: t.Name.L}, {Database: fk.RefSchema.L, Table: fk.RefTable.L, Mode: 1}},
	}, nil
}

func (a *alteration) dropForeignKey(s *ast.AlterTableSpec) (*change, error) {
	if a.table.foreignKey(fold(s.Name)) == nil {
		if s.IfExists {
			return nil, nil
		}
		return nil, refuse(errCannotDropKey, "Can't DROP '%s'; check that column/key exists", s.Name)
	}
	name := MakeName(s.Name)
	return &change{
		action: ActionDropForeignKey, args: &foreignKeyArgs{Name: &name}, state: StatePublic, meta: a.plainMeta(), vars: a.multiVars(),
	}, nil
}

// checkConstraint adds, drops or switches a CHECK.
func (w *work) checkConstraint(a *checkArgs) error {
	switch w.info.Type {
	case ActionAddCheck:
		return w.addCheck(a)
	case ActionDropCheck:
		return w.dropCheck(a)
	}
	return w.at(func(t *TableInfo) error {
		c := t.constraint(a.Name.L)
		if c == nil {
			return refuse(3940, "Constraint '%s' does not exist.", a.Name.O)
		}
		c.Enforced = a.Enforced
		return nil
	})
}

// addCheck lets writers obey the CHECK before it looks at what is there.
func (w *work) addCheck(a *checkArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	c := t.constraint(a.Constraint.Name.L)
	if c == nil {
		x := *a.Constraint
		t.MaxConstraintID++
		x.ID = t.MaxConstraintID
		a.Constraint.ID = x.ID
		c = &x
		t.Constraints = append(t.Constraints, c)
	}
	w.bump(nil)
	switch {
	case w.rollingback():
		t.Constraints = slices.DeleteFunc(t.Constraints, func(x *Constraint) bool { return x == c })
		w.reportFailure()
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
		return nil
	case w.info.SchemaState == StateNone:
		c.State = StateWriteOnly
		a.Constraint.State = StateWriteOnly
	case w.info.SchemaState == StateWriteOnly:
		c.State = StateWriteReorg
	default:
		c.State = StatePublic
		w.update(w.info.SchemaID, t)
		w.doneTable(StatePublic, t)
		return nil
	}
	w.update(w.info.SchemaID, t)
	w.info.SchemaState = c.State
	return nil
}

func (w *work) dropCheck(a *checkArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	c := t.constraint(a.Name.L)
	if c == nil {
		return w.cancel(3940, "Constraint '%s' does not exist.", a.Name.O)
	}
	w.bump(nil)
	if c.State == StatePublic {
		c.State = StateWriteOnly
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = StateWriteOnly
		return nil
	}
	t.Constraints = slices.DeleteFunc(t.Constraints, func(x *Constraint) bool { return x == c })
	w.update(w.info.SchemaID, t)
	w.doneTable(StateNone, t)
	return nil
}

// foreignKeyStep adds or drops a foreign key.
func (w *work) foreignKeyStep(a *foreignKeyArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	if w.info.Type == ActionDropForeignKey {
		if w.hold() {
			w.touch(t)
			return nil
		}
		t.ForeignKeys = slices.DeleteFunc(t.ForeignKeys, func(k *ForeignKey) bool { return k.Name.L == a.Name.L })
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
		return nil
	}
	k := t.foreignKey(a.ForeignKey.Name.L)
	if k == nil {
		x := *a.ForeignKey
		t.MaxForeignKeyID++
		x.ID = t.MaxForeignKeyID
		k = &x
		t.ForeignKeys = append(t.ForeignKeys, k)
	}
	switch k.State {
	case StateNone:
		k.State = StateWriteOnly
	case StateWriteOnly:
		k.State = StateWriteReorg
		w.ready()
	default:
		k.State = StatePublic
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.doneTable(StatePublic, t)
		return nil
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.info.SchemaState = k.State
	return nil
}
