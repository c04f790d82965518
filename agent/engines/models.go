package engines

// ModelStatus is one model of the models folder.
type ModelStatus struct {
	Name    string `json:"name"`
	Task    string `json:"task,omitempty"`
	Format  string `json:"format,omitempty"`
	Size    int64  `json:"size"` // bytes, of all files
	Licence string `json:"licence,omitempty"`
	Source  string `json:"source,omitempty"`
	Problem string `json:"problem,omitempty"` // why it cannot be used
}

// Models lists the models that executors find, those with wrong cards too.
func (in *Installer) Models() ([]ModelStatus, error) {
	names, err := in.Layout.Models()
	if err != nil {
		return nil, err
	}
	list := make([]ModelStatus, 0, len(names))
	for _, name := range names {
		c, _, err := in.Layout.Model(name)
		m := ModelStatus{Name: name, Task: c.Task, Format: c.Format, Licence: c.Licence, Source: c.Source}
		for _, f := range c.Files {
			m.Size += f.Size
		}
		if err != nil {
			m.Problem = err.Error()
		}
		list = append(list, m)
	}
	return list, nil
}
