//! Whether crossbeam-epoch can be used where the tests run: under Miri only with Tree Borrows, for
//! it does not keep to Stacked Borrows.

/// Says that a test is skipped where it cannot.
pub(crate) fn epochs() -> bool {
    let can = !cfg!(miri) || std::env::var_os("SAMARA_TREE_BORROWS").is_some();
    if !can {
        println!(
            "skipped: crossbeam-epoch does not keep to Stacked Borrows; run with SAMARA_TREE_BORROWS as ci/miri.sh does"
        );
    }
    can
}
