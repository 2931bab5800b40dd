//! What the GPU was like while it was timed, in a line.

use serde_json::{Value, json};

use crate::case::Conditions;

/// Such as `SMs at 1755 MHz (1665 to 1980), memory at 2619 MHz, 612 of 700 W, 54 °C; held back by the power limit (83 % of 41 moments)`; none where
/// nothing was asked in time.
pub(super) fn text(conditions: &Conditions) -> Option<String> {
    let [least, median, most] = conditions.sm_mhz()?;
    let mut parts = vec![if least == most {
        format!("SMs at {median} MHz")
    } else {
        format!("SMs at {median} MHz ({least} to {most})")
    }];
    parts.extend(
        conditions
            .memory_mhz()
            .map(|[_, median, _]| format!("memory at {median} MHz")),
    );
    parts.extend(
        conditions
            .watts()
            .map(|[_, median, _]| match conditions.power_limit_watts {
                Some(limit) => format!("{median} of {limit} W"),
                None => format!("{median} W"),
            }),
    );
    parts.extend(
        conditions
            .celsius()
            .map(|[_, _, most]| format!("{most} °C")),
    );
    let text = parts.join(", ");
    let Some(throttles) = conditions.throttles() else {
        return Some(text + "; the driver does not say what holds clocks back");
    };
    let moments = conditions.moments();
    let held: Vec<String> = throttles
        .iter()
        .map(|(reason, share)| format!("{reason} ({:.0} % of {moments} moments)", share * 100.0))
        .collect();
    Some(if held.is_empty() {
        text + "; nothing holds clocks back"
    } else {
        text + "; held back by " + &held.join(", ")
    })
}

/// For machines: the lowest, the median and the highest of each.
pub(super) fn event(conditions: &Conditions) -> Value {
    let throttles = conditions.throttles().map(|throttles| {
        let each = throttles.into_iter();
        each.map(|(reason, share)| (reason.to_string(), share.into()))
            .collect::<serde_json::Map<String, Value>>()
    });
    json!({
        "moments": conditions.moments(), "sm_mhz": conditions.sm_mhz(), "memory_mhz": conditions.memory_mhz(),
        "watts": conditions.watts(), "power_limit_watts": conditions.power_limit_watts, "celsius": conditions.celsius(),
        "throttles": throttles,
    })
}
