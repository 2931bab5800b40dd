//! The numbers of a target by name, for texts: explanations of diagnostics and pages of the book.

use crate::{BANKS, TENSOR_MAP_BYTES, Target};

/// One number of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The field of [`Target`], as `cta.shared_bytes`; with a unit behind a colon where it is given in another one.
    pub name: &'static str,
    /// The value, as texts write it.
    pub value: String,
    /// What it limits.
    pub meaning: &'static str,
}

macro_rules! facts {
    ($target:ident; $($($field:ident).+ => $meaning:literal;)+) => {
        vec![$(Fact {
            name: facts!(@name $($field).+),
            value: $target.$($field).+.to_string(),
            meaning: $meaning,
        },)+]
    };
    (@name $first:ident $(. $rest:ident)*) => { concat!(stringify!($first) $(, ".", stringify!($rest))*) };
}

impl Target {
    /// The numbers that texts name, in the order of the fields.
    pub fn facts(&self) -> Vec<Fact> {
        let mut all = facts! { self;
            arch => "target of PTX";
            code_name => "architecture";
            cta.threads => "threads of a CTA";
            cta.shared_bytes => "shared memory of a CTA, bytes";
            cta.static_shared_bytes => "shared memory of a CTA in arrays of fixed size, bytes";
            cta.barriers => "barriers of a CTA";
            sm.threads => "threads of an SM";
            sm.ctas => "CTAs of an SM";
            sm.shared_bytes => "shared memory of an SM, bytes";
            sm.reserved_shared_bytes_per_cta => "shared memory of an SM that each CTA takes besides its own, bytes";
            sm.registers => "32-bit registers of an SM";
            registers.per_thread => "registers of a thread";
            registers.unit => "unit in which threads are given registers";
            registers.least_budget => "fewest registers of a budget (`setmaxnreg`)";
            registers.most_budget => "most registers of a budget (`setmaxnreg`)";
            cluster.ctas => "CTAs of a cluster";
            cluster.portable_ctas => "CTAs of a cluster that each GPU of the architecture can run";
            access.widest_bytes => "widest access of a thread, bytes";
            access.sector_bytes => "sector of global memory, bytes";
            mbarrier.arrivals => "arrivals of a phase of an mbarrier";
            mbarrier.transaction_bytes => "bytes that a phase of an mbarrier expects";
            tensor_map.rank => "dimensions of a tensor map";
            tensor_map.unit_bytes => "what addresses, strides and sizes of TMA copies are multiples of, bytes";
            tensor_map.box_elements => "elements of a TMA box along one dimension";
            tensor_map.element_stride => "step between elements that a TMA copy takes";
            wgmma.m => "rows of one `wgmma`";
            wgmma.n_unit => "columns of one `wgmma` are a multiple of, and at least";
            wgmma.most_n => "columns of one `wgmma`";
            wgmma.pending_groups => "groups of `wgmma` that a wait leaves pending";
            wgmma.sparse_depth_factor => "K of a sparse `wgmma`, in units of that of a dense one";
        };
        let more = [
            ("cta.warps", self.cta.warps().to_string(), "warps of a CTA"),
            (
                "cta.shared_bytes:KiB",
                format!("{} KiB", self.cta.shared_bytes >> 10),
                "shared memory of a CTA",
            ),
            (
                "access.async_bytes",
                self.access.async_bytes_in_words(),
                "bytes that one `cp.async` copies",
            ),
            ("banks", BANKS.to_string(), "banks of shared memory"),
            (
                "tensor_map.bytes",
                TENSOR_MAP_BYTES.to_string(),
                "a tensor map, bytes",
            ),
        ];
        all.extend(more.map(|(name, value, meaning)| Fact {
            name,
            value,
            meaning,
        }));
        all
    }

    /// `text` with the value in place of each `{name}` of a [`Fact`].
    pub fn fill(&self, text: &str) -> String {
        let facts = self.facts();
        facts.iter().fold(text.to_owned(), |text, fact| {
            text.replace(&format!("{{{}}}", fact.name), &fact.value)
        })
    }

    /// A page of the book with the value between each `<!--=name-->` and the `<!--/-->` behind it.
    ///
    /// # Errors
    /// A name that is no [`Fact`], or a mark that does not end.
    pub fn fill_page(&self, page: &str) -> Result<String, String> {
        let facts = self.facts();
        let mut parts = page.split("<!--=");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("-->").ok_or("a mark without a name")?;
            let (_, rest) = rest
                .split_once("<!--/-->")
                .ok_or(format!("the mark `{name}` does not end"))?;
            let fact = facts.iter().find(|fact| fact.name == name);
            let value = &fact.ok_or(format!("there is no fact `{name}`"))?.value;
            for piece in ["<!--=", name, "-->", value, "<!--/-->", rest] {
                filled += piece;
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use crate::SM_90A;

    #[test]
    fn texts_are_filled_with_the_numbers_of_the_target() {
        let mut target = SM_90A;
        target.cta.shared_bytes = 99 << 10;
        target.cluster.ctas = 4;
        let text = "{cta.shared_bytes:KiB} are {cta.shared_bytes} bytes {x}, {cluster.ctas} CTAs";
        assert_eq!(target.fill(text), "99 KiB are 101376 bytes {x}, 4 CTAs");
        let page = "A CTA has <!--=cta.shared_bytes:KiB-->227 KiB<!--/-->.";
        let filled = "A CTA has <!--=cta.shared_bytes:KiB-->99 KiB<!--/-->.";
        assert_eq!(target.fill_page(page).as_deref(), Ok(filled));
        assert!(target.fill_page("<!--=cta.colour-->red<!--/-->").is_err());
        assert!(target.fill_page("<!--=arch-->sm_90a").is_err());
    }
}
