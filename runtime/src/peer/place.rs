//! Where matrices of a library's product begin in buffers.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;

/// The address of element `offset` of a buffer on `device`, from which a matrix of so many elements begins; or why there is none. Counts as a use of the buffer.
pub(super) fn place_of<T: DeviceElement>(
    device: &Device,
    name: &str,
    (buffer, offset): (&Buffer<T>, usize),
    elements: usize,
) -> Result<u64, String> {
    if buffer.device() != device {
        return Err(format!("{name} is on another device"));
    }
    let end = offset.saturating_add(elements);
    if end > buffer.len() {
        return Err(format!(
            "{name} ends at element {end} of a buffer of {}",
            buffer.len()
        ));
    }
    buffer.note_use();
    Ok(buffer.address() + (offset * size_of::<T>()) as u64)
}
