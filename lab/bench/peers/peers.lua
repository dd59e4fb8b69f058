-- oltp_update_index of stock sysbench with a range of rows for each region: region r of n has the ids
-- from r * size + 1 to (r + 1) * size, and draws the given share of its updates from the others' ranges.
require("oltp_common")

local o = sysbench.cmdline.options
o.region = {"The client's region, from 0", 0}
o.regions = {"Number of regions", 1}
o.size = {"Rows of each region", 1000}
o.foreign = {"Percentage of updates of other regions' rows", 0}
o.walk = {"Go through the region's rows again and again instead of drawing them", false}

function prepare_statements()
   prepare_index_updates()
end

local step = 0

function event()
   local opt = sysbench.opt
   local region, row = opt.region, nil
   if opt.walk then
      row = (sysbench.tid + step * opt.threads) % opt.size + 1
      step = step + 1
   else
      if opt.foreign > 0 and sysbench.rand.uniform(1, 100) <= opt.foreign then
         region = (region + sysbench.rand.uniform(1, opt.regions - 1)) % opt.regions
      end
      row = sysbench.rand.uniform(1, opt.size)
   end
   param[1].index_updates[1]:set(region * opt.size + row)
   stmt[1].index_updates:execute()
end
