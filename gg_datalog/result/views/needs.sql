-- Which tensors are known, and which operands of the others are not. Runs once, when a result is
-- written: what needs recursion is stored, the rest are views.

-- ---- tensors ------------------------------------------------------------------------------------

CREATE VIEW tensor_node AS
SELECT b.side, b.tensor, b.rank, b.node, b.kind, coalesce(g.target, '') AS target,
       coalesce(g.source, '') AS source, coalesce(g.module, '') AS module,
       CASE b.side WHEN 'seq' THEN b.node ELSE 'r' || b.rank || '.' || b.node END AS name
FROM base_tensor b
LEFT JOIN graph_node g ON g.side = b.side AND g.rank = b.rank AND g.name = b.node;
COMMENT ON VIEW tensor_node IS 'Base tensors with the node that computes each, as a person knows it.';

CREATE VIEW tensor_mapped AS
SELECT "of" AS tensor FROM seq_mapped
UNION SELECT tensor FROM base_tensor WHERE side = 'seq' AND kind = 'constant';
COMMENT ON VIEW tensor_mapped IS 'Sequential base tensors that can be rebuilt, and constants.';

CREATE TABLE stored.held_piece AS
WITH piece AS (
    SELECT block, product(hi - lo) AS elements,
           list([hi - lo, dim, dist_stride, dist_lo] ORDER BY dim, dist_stride, dist_lo, hi - lo)
               AS places
    FROM block_run GROUP BY block
)
SELECT h.dist, h.seq, h.parts, coalesce(p.places, []) AS places, coalesce(p.elements, 1) AS elements
FROM holds h LEFT JOIN piece p USING (block);
CREATE VIEW internal.held_piece AS SELECT * FROM stored.held_piece;
COMMENT ON VIEW internal.held_piece IS
    'How many elements of distributed tensor `dist` one relation to `seq` accounts for, and which '
    '(per run: count, dimension, stride, offset).';

CREATE VIEW internal.tensor_size AS
SELECT side, tensor,
       CASE shape WHEN '' THEN 1 ELSE list_product(string_split(shape, 'x')::DOUBLE[]) END AS elements
FROM base_tensor;
COMMENT ON VIEW internal.tensor_size IS 'How many elements a base tensor has.';

CREATE TABLE stored.tensor_related AS
SELECT h.dist AS tensor
FROM (SELECT DISTINCT dist, places, elements FROM stored.held_piece) h
JOIN tensor_size s ON s.side = 'dist' AND s.tensor = h.dist
GROUP BY h.dist, s.elements HAVING sum(h.elements) >= s.elements
UNION SELECT tensor FROM base_tensor WHERE side = 'dist' AND kind IN ('constant', 'uninitialised');
CREATE VIEW internal.tensor_related AS SELECT * FROM stored.tensor_related;
COMMENT ON VIEW internal.tensor_related IS
    'Distributed base tensors all elements of which are accounted for, and constants.';

CREATE VIEW internal.tensor_opaque AS
SELECT t.side, t.tensor, 'unsupported operator' AS reason, u.reason AS detail
FROM unsupported_operator u
JOIN tensor_node t ON t.side = u.side AND t.rank = u.rank AND t.node = u.node
UNION
SELECT t.side, t.tensor, 'opaque input', o.reason
FROM opaque_input o
JOIN tensor_node t ON t.side = o.side AND t.rank = o.rank AND t.node = o.node;
COMMENT ON VIEW internal.tensor_opaque IS 'Base tensors whose value no rule describes.';

-- ---- operands that are not known -----------------------------------------------------------------

-- Masks and clamped ids are no ends in themselves: a rule looks through them, and so do chains.
CREATE VIEW internal.helper_tensor AS
SELECT gives AS tensor FROM integer_test UNION SELECT gives FROM integer_pair
UNION SELECT gives FROM integer_not UNION SELECT gives FROM integer_fill
UNION SELECT gives FROM integer_sum
EXCEPT SELECT "of" FROM wanted EXCEPT SELECT "of" FROM returned;
COMMENT ON VIEW internal.helper_tensor IS 'Integer tensors that rules look through instead of relating them.';

CREATE TABLE stored.unknown_need AS
WITH RECURSIVE known AS MATERIALIZED (
    SELECT 'seq' AS side, tensor FROM tensor_mapped
    UNION SELECT 'seq', "of" FROM seq_available
    UNION SELECT 'dist', tensor FROM tensor_related
    UNION SELECT side, tensor FROM base_tensor
    WHERE side = 'dist' AND kind = 'input' AND tensor NOT IN (SELECT tensor FROM tensor_opaque)
),
needs AS MATERIALIZED (
    SELECT DISTINCT n.side, n.tensor, n.needs FROM tensor_needs n
    ANTI JOIN known k ON k.side = n.side AND k.tensor = n.needs
),
helper AS MATERIALIZED (SELECT tensor FROM helper_tensor),
reach(side, tensor, needs) AS (
    SELECT side, tensor, needs FROM needs ANTI JOIN helper USING (tensor)
    UNION
    SELECT r.side, r.tensor, n.needs FROM reach r
    JOIN helper h ON h.tensor = r.needs
    JOIN needs n ON n.side = r.side AND n.tensor = r.needs
)
SELECT side, tensor, needs, needs IN (SELECT tensor FROM helper) AS helper FROM reach;
CREATE VIEW internal.unknown_need AS SELECT * FROM stored.unknown_need;
COMMENT ON VIEW internal.unknown_need IS
    'Operands of a tensor that are not there (seq) or hold nothing (dist), also through helpers.';
