package v1alpha1

// OwnedSettingNames lists the names and families that OwnedSetting knows, for the tests of the contract.
func OwnedSettingNames() (names, families []string) {
	for _, group := range ownedGroups() {
		names = append(names, group.names...)
		families = append(families, group.families...)
	}
	return names, families
}
