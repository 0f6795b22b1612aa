"""Views: types with the fields that accelkit reads from API server objects, under their JSON names.

Where to add a new view:

- `accelkit.model.pod` and `accelkit.model.object_meta` contain the fields that are required to count cards. The
  extender stores them for all pods in a cluster, so do not add fields that only other programs require.
- This package contains views that several packages use, and their building blocks: `metadata` for all kinds, `pod`,
  `node`, `scheduling` for scheduling constraints between pods and nodes, and `api` for responses that are not objects.
- A view that only one package uses belongs to that package. It extends a view in this package or uses its building
  blocks.

A view contains only the fields that its readers use. Other fields are skipped during decoding. This limits the use of
memory, because a user can fill an object with megabytes of data, and a cluster can have 100,000 pods. If a reader
requires more fields, define a subclass of the view instead of adding fields to the view.
"""
