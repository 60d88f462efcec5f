/** Lock classes of emend's advisory locks: `em` in the high half, the target's number in the low one. Below 256: buckets of keys (`emend.lock_keys`). */
export const lockClass = 0x656d0000;

/** The lock under which a target's objects are changed; merges share it. */
export const objectsLock = 256;
