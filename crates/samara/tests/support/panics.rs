//! Panics that tests ask for: after how many operations, and without their words on the screen.

/// Every n that is not too many, and then some.
pub(crate) fn fuses() -> impl Iterator<Item = u64> {
    let dense = if cfg!(miri) { 2 } else { 70 };
    (0..dense).chain((dense..20_000).step_by(if cfg!(miri) { 211 } else { 61 }))
}

/// Shows only panics that were not asked for.
pub(crate) fn quiet(test: fn()) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let asked = info.payload().downcast_ref::<&str>().is_some_and(|text| text.contains("asked to panic"));
            if !asked {
                hook(info);
            }
        }));
    });
    test();
}
