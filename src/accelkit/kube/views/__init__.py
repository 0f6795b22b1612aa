"""Views: the fields that accelkit reads from API server objects, under their JSON names.

Where to put a new view:

- `accelkit.model.pod` and `accelkit.model.object_meta` contain the fields from which cards are counted. The extender
  keeps them for all pods of a cluster, so they get no field that only another program needs.
- This package contains the views that several packages read, and the parts of which views consist: `metadata` for all
  kinds, `pod`, `node`, `scheduling` for the constraints of pods and nodes on each other, and `api` for
  responses that are not objects.
- A view that one package reads stays in that package. It extends a view of this package, or uses its parts.

A view has only the fields that its readers use, because decoding skips the others: a user can fill an object with
megabytes, and a cluster can have 100,000 pods. Readers that need more fields extend a view instead of adding fields
to it.
"""
